package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/mcp-sandbox/mcp-sandbox/activities"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

const (
	reapSession  = "s_aaaaaaaaaaaaaaaaaaaaaaaaaa"
	reapSnapshot = "snap_aaaaaaaaaaaaaaaaaaaaaaaaaa"
)

// reapBackend has an inventory, and remembers what was removed of it.
type reapBackend struct {
	activities.Backend
	all     []activities.Resource
	err     error // of Inventory
	keeps   bool  // removes nothing, without a word
	fails   error // of every removal
	removed []string
}

func (b *reapBackend) Inventory(context.Context) ([]activities.Resource, error) {
	return slices.Clone(b.all), b.err
}

func (b *reapBackend) RemoveSession(_ context.Context, id string) error {
	return b.drop("session", func(r activities.Resource) bool { return r.SessionID == id && r.Kind != activities.KindImage })
}

func (b *reapBackend) RemoveResource(_ context.Context, r activities.Resource) error {
	return b.drop(r.ID, func(x activities.Resource) bool { return x == r })
}

func (b *reapBackend) drop(what string, gone func(activities.Resource) bool) error {
	if b.fails != nil {
		return b.fails
	}
	b.removed = append(b.removed, what)
	if !b.keeps {
		b.all = slices.DeleteFunc(b.all, gone)
	}
	return nil
}

// lives answers for workflows; one that is not in it is not known. The reaper's
// own run is, unless foreign.
type lives struct {
	known   map[string]session.Life
	err     error
	foreign bool
	asked   int
}

func (l *lives) Life(_ context.Context, id, runID string) (session.Life, error) {
	l.asked++
	switch {
	case l.err != nil:
		return "", l.err
	case runID != "" && !l.foreign:
		return session.LifeRunning, nil
	case l.known[id] != "":
		return l.known[id], nil
	}
	return session.LifeUnknown, nil
}

func (l *lives) ForgetReaps(context.Context, string, string) error {
	return errors.New("some other day")
}

func reap(t *testing.T, b *reapBackend, l *lives, in session.ReapInput) (session.ReapReport, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	h := activities.NewHost(b, nil)
	h.UseReaper(l, activities.ReapOptions{})
	h.Register(env)
	in.HostID, in.ListLeft = "h1", true
	v, err := env.ExecuteActivity(activities.Reap, in)
	if err != nil {
		return session.ReapReport{}, err
	}
	var rep session.ReapReport
	require.NoError(t, v.Get(&rep))
	return rep, nil
}

// thing makes a resource that is that old.
func thing(role activities.Role, age time.Duration, change ...func(*activities.Resource)) activities.Resource {
	kinds := map[activities.Role]activities.ResourceKind{
		activities.RoleJournal: activities.KindVolume, activities.RoleVolume: activities.KindVolume,
		activities.RoleBridge: activities.KindNetwork, activities.RoleSpare: activities.KindNetwork,
		activities.RoleSnapshot: activities.KindImage, activities.RoleDerived: activities.KindImage,
	}
	r := activities.Resource{Kind: kinds[role], Role: role, ID: string(role), Created: time.Now().Add(-age)}
	if r.Kind == "" {
		r.Kind = activities.KindContainer
	}
	switch role {
	case activities.RoleSandbox, activities.RoleJournal, activities.RoleVolume:
		r.SessionID, r.Incarnation = reapSession, 1
	case activities.RoleSnapshot:
		r.SessionID, r.SnapshotID = reapSession, reapSnapshot
	default:
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func incarnation(n int, running bool) func(*activities.Resource) {
	return func(r *activities.Resource) {
		r.ID, r.Incarnation, r.Running = fmt.Sprintf("%s%d", r.Role, n), n, running
	}
}

func used(ago time.Duration) func(*activities.Resource) {
	return func(r *activities.Resource) { r.LastUsed = time.Now().Add(-ago) }
}

const old = time.Hour

// What is removed, and in what order; all else stays.
func TestReapRules(t *testing.T) {
	const (
		running, closed = session.LifeRunning, session.LifeClosed
		day             = 24 * time.Hour
	)
	inUse := func(r *activities.Resource) { r.InUse = true }
	isDefault := func(r *activities.Resource) { r.Default = true }
	ofSnapshot := func(r *activities.Resource) { r.SnapshotID = reapSnapshot }
	type things []activities.Resource
	sandbox := things{thing(activities.RoleSandbox, old), thing(activities.RoleJournal, old)}
	young := things{thing(activities.RoleSandbox, time.Minute), thing(activities.RoleJournal, old)}
	stale := things{
		thing(activities.RoleSandbox, old, incarnation(1, false)), thing(activities.RoleSandbox, old, incarnation(2, true)),
		thing(activities.RoleVolume, old, incarnation(1, false)), thing(activities.RoleVolume, old, incarnation(2, false)), thing(activities.RoleJournal, old),
	}
	image := things{thing(activities.RoleSnapshot, old)}
	family := things{thing(activities.RoleSnapshot, old), thing(activities.RoleDerived, old, ofSnapshot, used(8*day))}
	for name, row := range map[string]struct {
		things            things
		session, snapshot session.Life // "" is not known
		removed           []string
		reason            string
	}{
		"a session that lives":                  {things: sandbox, session: running, reason: "its session lives"},
		"a session that has ended":              {things: sandbox, session: closed, removed: []string{"session"}, reason: "its session has ended"},
		"one that ended young":                  {things: young, session: closed, removed: []string{"session"}},
		"a session that is not known":           {things: sandbox, removed: []string{"session"}, reason: "no session of its ID is known"},
		"one not known, with something young":   {things: young, reason: "less than 10m0s ago"},
		"a volume alone":                        {things: sandbox[1:], session: closed, removed: []string{"session"}},
		"an earlier incarnation":                {things: stale, session: running, removed: []string{"sandbox1", "volume1"}},
		"an earlier one of an ended session":    {things: stale, session: closed, removed: []string{"session"}},
		"its successor does not run":            {things: things{stale[0], thing(activities.RoleSandbox, old, incarnation(2, false))}, session: running},
		"its successor is young":                {things: things{stale[0], thing(activities.RoleSandbox, time.Minute, incarnation(2, true))}, session: running},
		"it has no successor":                   {things: things{stale[0], stale[2], stale[4]}, session: running},
		"a snapshot that is kept":               {things: image, session: closed, snapshot: running, reason: "its snapshot is kept"},
		"a deleted snapshot":                    {things: image, session: running, snapshot: closed, removed: []string{"snapshot"}, reason: "its snapshot was deleted"},
		"a deleted snapshot in use":             {things: things{thing(activities.RoleSnapshot, old, inUse)}, session: running, snapshot: closed, reason: "a sandbox is made of it"},
		"an image that became no snapshot":      {things: image, session: closed, removed: []string{"snapshot"}},
		"one of a session not known":            {things: image, removed: []string{"snapshot"}, reason: "no snapshot of its ID is known"},
		"one that may still become one":         {things: image, session: running, reason: "its session lives"},
		"one that was just made":                {things: things{thing(activities.RoleSnapshot, time.Minute)}, session: closed, reason: "less than 10m0s ago"},
		"images derived from a deleted one":     {things: family, session: closed, snapshot: closed, removed: []string{"derived", "snapshot"}},
		"an unused one derived from a kept one": {things: family, session: closed, snapshot: running, removed: []string{"derived"}},
		"a derived image not used":              {things: things{thing(activities.RoleDerived, old, used(8*day))}, removed: []string{"derived"}},
		"a derived image used lately":           {things: things{thing(activities.RoleDerived, 30*day, used(6*day))}, reason: "used within 168h0m0s"},
		"a derived image of unknown use":        {things: things{thing(activities.RoleDerived, 30*day)}, reason: "does not tell"},
		"a derived image in use":                {things: things{thing(activities.RoleDerived, old, used(8*day), inUse)}, reason: "a sandbox is made of it"},
		"the default image's":                   {things: things{thing(activities.RoleDerived, old, used(8*day), isDefault)}, reason: "the default image's"},
		"a build":                               {things: things{thing(activities.RoleBuild, old)}, removed: []string{"build"}},
		"a build at work":                       {things: things{thing(activities.RoleBuild, time.Minute)}},
		"the bridge":                            {things: things{thing(activities.RoleBridge, old)}, reason: "sandboxes share it"},
		"a second bridge":                       {things: things{thing(activities.RoleSpare, old)}, removed: []string{"spare"}},
		"somebody else's":                       {things: things{thing("", old, func(r *activities.Resource) { r.SessionID = reapSession })}, session: closed, reason: "it is somebody else's"},
		"nothing":                               {},
	} {
		t.Run(name, func(t *testing.T) {
			known := map[string]session.Life{}
			if row.session != "" {
				known[session.WorkflowIDPrefix+reapSession] = row.session
			}
			if row.snapshot != "" {
				known[session.SnapshotWorkflowIDPrefix+reapSnapshot] = row.snapshot
			}
			before := len(row.things)
			dry := &reapBackend{all: slices.Clone(row.things)}
			foretold, err := reap(t, dry, &lives{known: known}, session.ReapInput{DryRun: true})
			require.NoError(t, err)
			require.Empty(t, dry.removed)

			b := &reapBackend{all: slices.Clone(row.things)}
			rep, err := reap(t, b, &lives{known: known}, session.ReapInput{})
			require.NoError(t, err)
			require.Equal(t, row.removed, b.removed)
			require.Equal(t, before-len(b.all), rep.Removed)
			require.Equal(t, len(b.all), rep.Left)
			require.Zero(t, rep.Failed)
			require.Equal(t, rep.Removed, foretold.Removed, "a dry run foretells it")
			require.Len(t, rep.Things, before)
			if row.reason != "" {
				require.Contains(t, rep.Things[0].Reason, row.reason)
			}
			again, err := reap(t, b, &lives{known: known}, session.ReapInput{})
			require.NoError(t, err)
			require.Zero(t, again.Removed, "and then nothing is left to do")
		})
	}
}

// Only a definite word of the Temporal that started the reaper counts.
func TestReapWithoutAWitness(t *testing.T) {
	var all []activities.Resource
	for i := range 5 {
		id := fmt.Sprintf("s_aaaaaaaaaaaaaaaaaaaaaaaaa%c", 'a'+i)
		all = append(all, thing(activities.RoleSandbox, old, func(r *activities.Resource) { r.SessionID, r.ID = id, id }))
	}
	all = append(all, thing(activities.RoleSnapshot, old))
	for name, l := range map[string]*lives{
		"no answer":        {err: errors.New("unavailable")},
		"another Temporal": {foreign: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := &reapBackend{all: all}
			rep, err := reap(t, b, l, session.ReapInput{})
			require.NoError(t, err)
			require.Empty(t, b.removed)
			require.Equal(t, 6, rep.Left)
			require.Contains(t, rep.Things[0].Reason, "is not known")
			require.LessOrEqual(t, l.asked, 6, "it gives up asking")
		})
	}
	t.Run("of an ended session its word is enough", func(t *testing.T) {
		b := &reapBackend{all: all[:1]}
		_, err := reap(t, b, &lives{foreign: true, known: map[string]session.Life{session.WorkflowIDPrefix + all[0].SessionID: session.LifeClosed}}, session.ReapInput{})
		require.NoError(t, err)
		require.Equal(t, []string{"session"}, b.removed)
	})
}

func TestReapFaults(t *testing.T) {
	ended := &lives{known: map[string]session.Life{session.WorkflowIDPrefix + reapSession: session.LifeClosed}}
	sandbox := []activities.Resource{thing(activities.RoleSandbox, old)}
	t.Run("no listing", func(t *testing.T) {
		b := &reapBackend{all: sandbox, err: errors.New("the engine does not answer")}
		_, err := reap(t, b, ended, session.ReapInput{})
		require.ErrorContains(t, err, "does not answer")
		require.Empty(t, b.removed)
	})
	t.Run("a removal fails", func(t *testing.T) {
		rep, err := reap(t, &reapBackend{all: sandbox, fails: errors.New("device busy")}, ended, session.ReapInput{})
		require.NoError(t, err)
		require.Equal(t, 1, rep.Failed)
		require.Equal(t, "its session has ended; device busy", rep.Things[0].Reason)
	})
	t.Run("the engine keeps it", func(t *testing.T) {
		rep, err := reap(t, &reapBackend{all: sandbox, keeps: true}, ended, session.ReapInput{})
		require.NoError(t, err)
		require.Zero(t, rep.Removed)
		require.Contains(t, rep.Things[0].Reason, "the engine keeps it")
	})
	t.Run("very many", func(t *testing.T) {
		var all []activities.Resource
		for i := range 3 * session.MaxReaped {
			all = append(all, thing(activities.RoleBuild, old, func(r *activities.Resource) { r.ID = fmt.Sprintf("%064d", i) }))
		}
		rep, err := reap(t, &reapBackend{all: all}, ended, session.ReapInput{})
		require.NoError(t, err)
		require.Equal(t, 3*session.MaxReaped, rep.Removed)
		require.Len(t, rep.Things, session.MaxReaped)
		require.Equal(t, 2*session.MaxReaped, rep.Unlisted)
		rep, err = reap(t, &reapBackend{all: all, fails: errors.New(strings.Repeat("x", 1000))}, ended, session.ReapInput{})
		require.NoError(t, err)
		size, err := json.Marshal(rep)
		require.NoError(t, err)
		require.Less(t, len(size), 256<<10, "the report stays small")
	})
}
