package backendtest

import (
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/mcp-sandbox/mcp-sandbox/guest"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

func (c testCase) runOnce() { // C4, G2
	t, h := c.t, c.h
	_, api := create(t, h, newSession(t, h))
	call := session.NewCallID()
	var wg sync.WaitGroup
	outs := make([]guest.Command, 8)
	errs := make([]error, len(outs))
	for i := range outs {
		wg.Go(func() { outs[i], errs[i] = api.Run(t.Context(), request(call, "echo x >> log; cat log", 20_000)) })
	}
	wg.Wait()
	for i := range outs {
		require.NoError(t, errs[i])
		require.Equal(t, "x\n", string(outs[i].Stdout.Head))
	}
	_, err := api.Run(t.Context(), request(call, "echo other", 1000))
	require.Equal(t, guest.CodeInvalid, guest.CodeOf(err))
	require.Equal(t, "x\n", sh(t, api, "cat log"))
}

func (c testCase) files() { // E1
	t, h := c.t, c.h
	box, api := create(t, h, newSession(t, h))
	written, err := api.WriteFile(t.Context(), guest.WriteFileRequest{
		CallID: session.NewCallID(), Path: "new/dir/script", Content: []byte("#!/bin/sh\necho ran\n"), Mode: 0o755, ArgsDigest: "1",
	})
	require.NoError(t, err)
	require.Equal(t, box.WorkingDir+"/new/dir/script", written.Path)
	require.True(t, written.Created)
	require.Equal(t, "ran\n", sh(t, api, "new/dir/script"))
	owners := strings.Fields(sh(t, api, "stat -c %u new new/dir new/dir/script; id -u"))
	require.Len(t, owners, 4)
	for _, uid := range owners {
		require.Equal(t, owners[3], uid, "the user's, parents too")
	}
	read, err := api.ReadFile(t.Context(), guest.ReadFileRequest{Path: "new/dir/script", MaxBytes: guest.MaxInline})
	require.NoError(t, err)
	require.Equal(t, "#!/bin/sh\necho ran\n", string(read.Content))
	require.Equal(t, written.SHA256, read.SHA256)
}

func (c testCase) journalSurvives() {
	t, h := c.t, c.h
	spec := newSession(t, h)
	box, api := create(t, h, spec)
	call := session.NewCallID()
	require.Equal(t, "x\n", run(t, api, call, "echo x >> log; cat log"))
	snap := snapshot(t, h, box.Ref)

	spec.Incarnation, spec.SnapshotID = 2, snap.SnapshotID
	restored, api := create(t, h, spec)
	require.Equal(t, box.Image, restored.Image)
	require.Equal(t, box.WorkingDir, restored.WorkingDir)
	require.Equal(t, "x\n", run(t, api, call, "echo x >> log; cat log"))
	require.Equal(t, "x\n", sh(t, api, "cat log"), "nothing ran again")
	chunk, err := api.Output(t.Context(), guest.OutputRequest{CallID: call, Stream: guest.Stdout, MaxBytes: 100})
	require.NoError(t, err)
	require.Equal(t, "x\n", string(chunk.Data), "its output can still be read")
}

func (c testCase) fork() {
	t, h := c.t, c.h
	box, api := create(t, h, newSession(t, h))
	call := session.NewCallID()
	run(t, api, call, "echo x >> log")
	snap := snapshot(t, h, box.Ref)

	spec := newSession(t, h)
	spec.SnapshotID = snap.SnapshotID
	fork, forked := create(t, h, spec)
	require.Equal(t, box.Image, fork.Image)
	_, err := forked.Output(t.Context(), guest.OutputRequest{CallID: call, Stream: guest.Stdout, MaxBytes: 100})
	require.Equal(t, guest.CodeNotFound, guest.CodeOf(err))
	require.Equal(t, "x\nx\n", run(t, forked, call, "echo x >> log; cat log"), "another session, another call")
	require.Equal(t, "x\n", sh(t, api, "cat log"))
}

func (c testCase) restore() { // D6
	t, h := c.t, c.h
	spec := newSession(t, h)
	box, api := create(t, h, spec)
	sh(t, api, "mkdir -p deep/er; echo one > deep/er/file; ln -s deep/er/file link; chmod 600 deep/er/file")
	snap := snapshot(t, h, box.Ref)
	sh(t, api, "echo two > deep/er/file; touch later; rm link")

	spec.Incarnation, spec.SnapshotID = 2, snap.SnapshotID
	_, api = create(t, h, spec)
	require.Equal(t, "one\n600\ndeep\nlink\n", sh(t, api, "cat link; stat -c %a deep/er/file; ls"))
}
