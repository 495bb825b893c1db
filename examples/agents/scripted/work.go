package main

import "context"

// The project that the agent writes. Its median is wrong for an even number of
// values, which one of its tests finds.
const (
	module = `def median(values):
    """The middle value; of an even number of values, the mean of the two in the middle."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
`
	tests = `import unittest

from stats import median


class TestMedian(unittest.TestCase):
    def test_odd(self):
        self.assertEqual(median([5, 1, 3]), 3)

    def test_even(self):
        self.assertEqual(median([4, 1, 3, 2]), 2.5)


if __name__ == "__main__":
    unittest.main()
`
	wrongLine  = "    return ordered[len(ordered) // 2]\n"
	rightLines = `    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
`
	runTests = "python3 -m unittest"
)

// work is the script.
func (a *agent) work(ctx context.Context, image string) {
	start := args{"name": "demo"}
	if image != "" {
		start["image"] = image
	}
	a.session = a.do(ctx, "Get a sandbox.", "start_session", start, gives("session_id")).str("session_id")

	a.do(ctx, "Write a module.", "write_file", args{"path": "project/stats.py", "content": module})
	a.do(ctx, "Write its tests.", "write_file", args{"path": "project/test_stats.py", "content": tests})
	a.test(ctx, "Run them: one fails.", exits(1), says("test_even"), says("3 != 2.5"))
	a.do(ctx, "Read the module again.", "read_file", args{"path": "project/stats.py"}, says("// 2]"))
	a.do(ctx, "Mend it.", "edit_file", args{"path": "project/stats.py", "old_str": wrongLine, "new_str": rightLines})
	a.test(ctx, "The tests pass.", exits(0), says("OK"))

	a.snapshot = a.do(ctx, "Keep this state.", "snapshot", args{"name": "green"}, gives("snapshot_id")).str("snapshot_id")
	a.do(ctx, "Break everything.", "run_command", args{"command": "rm -rf project && ls -A"}, exits(0))
	a.do(ctx, "It is gone.", "run_command", args{"command": "cd project"}, func(r result) string {
		if exits(0)(r) == "" {
			return "the project is still there"
		}
		return ""
	})
	a.do(ctx, "Go back to the snapshot.", "restore_snapshot", args{"snapshot_id": a.snapshot})
	a.test(ctx, "The tests pass again.", exits(0), says("OK"))

	if a.tools["session_history"] {
		a.do(ctx, "Look back.", "session_history", args{})
	}
	a.do(ctx, "See the session once more.", "get_session", args{}, gives("workflow_id"))
	a.finish(ctx)
}

func (a *agent) test(ctx context.Context, why string, checks ...check) {
	a.do(ctx, why, "run_command", args{"command": runTests, "cwd": "project"}, checks...)
}

// finish ends the session and deletes the snapshot, which would outlive it.
func (a *agent) finish(ctx context.Context) {
	a.do(ctx, "End the session.", "end_session", args{}, says("ended"))
	if a.err == nil {
		a.session = ""
	}
	a.do(ctx, "Delete the snapshot, which would outlive it.", "delete_snapshot", args{"snapshot_id": a.snapshot})
	if a.err == nil {
		a.snapshot = ""
	}
}
