package guest

// How a guest that does not start tells why, beside its log, which nobody keeps.
const (
	// ExitNetwork is its exit code when it could not close what a sandbox with a
	// network must not reach.
	ExitNetwork = 3
	// StartErrorFile, in the state directory, then holds the reason.
	StartErrorFile = "start-error"
)
