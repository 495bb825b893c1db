package guest

// The paths of the protocol. Each takes a POST with a JSON body and answers
// 200 with the result, or 400 with an Error, both as JSON. Any other status
// means that no guest answered.
const (
	PathHello     = "/v1/hello"
	PathRun       = "/v1/run"
	PathOutput    = "/v1/output"
	PathInput     = "/v1/input"
	PathStop      = "/v1/stop"
	PathRefuse    = "/v1/refuse"
	PathReadFile  = "/v1/read_file"
	PathWriteFile = "/v1/write_file"
	PathEditFile  = "/v1/edit_file"
	PathUsage     = "/v1/usage"
)

// The headers that carry the Fence. Every request has both.
const (
	HeaderSession     = "Sandbox-Session"
	HeaderIncarnation = "Sandbox-Incarnation"
)

const (
	// MaxBody bounds a request's JSON: MaxInline of text, every byte of it
	// escaped, twice (an edit carries two texts).
	MaxBody = 4 << 20
	// MaxFrame is the largest HTTP/2 frame that either side reads: 64 KiB. With the
	// default of 16 KiB the relay in the container takes twice the time.
	MaxFrame = 64 << 10
	// MaxCallID is the longest call ID, in bytes.
	MaxCallID = 128
)

// HelloRequest opens a connection. The guest answers with the newest protocol
// that both sides speak, or CodeInvalid when there is none.
type HelloRequest struct {
	// MinProtocol and MaxProtocol are the range the caller speaks.
	MinProtocol int `json:"min_protocol"`
	MaxProtocol int `json:"max_protocol"`
}

// ValidCallID tells whether id is 1 to MaxCallID of [A-Za-z0-9_-].
func ValidCallID(id string) bool {
	if id == "" || len(id) > MaxCallID {
		return false
	}
	for _, c := range []byte(id) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
