package activities

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// ReapOptions bound what a reaper removes.
type ReapOptions struct {
	// MinAge is how old a thing must be that Temporal knows nothing of; 0 is
	// 10 min. What is just being made is younger. What belongs to a closed
	// workflow has no such guard: nobody makes anything for it any more.
	MinAge time.Duration
	// UnusedFor is how long nothing was made of a derived image that is removed;
	// 0 is 7 days.
	UnusedFor time.Duration
}

func (o ReapOptions) withDefaults() ReapOptions {
	o.MinAge = cmp.Or(o.MinAge, 10*time.Minute)
	o.UnusedFor = cmp.Or(o.UnusedFor, 7*24*time.Hour)
	return o
}

// holding is what stands or falls together: the things of a session, the images
// of a snapshot, or a thing of its own.
type holding struct {
	sessionID, snapshotID string // one at most
	things                []Resource
}

// holdings sorts an inventory, always in the same order.
func holdings(all []Resource) []holding {
	sorted := map[string]*holding{}
	for _, r := range all {
		h := holding{}
		key := "thing/" + string(r.Kind) + "/" + r.ID
		switch r.Role {
		case RoleSandbox, RoleJournal, RoleVolume:
			h.sessionID, key = r.SessionID, session.WorkflowIDPrefix+r.SessionID
		case RoleSnapshot, RoleDerived:
			if r.SnapshotID != "" {
				h.snapshotID, key = r.SnapshotID, session.SnapshotWorkflowIDPrefix+r.SnapshotID
			}
		case RoleBuild, RoleBridge, RoleSpare:
		}
		if sorted[key] == nil {
			sorted[key] = &h
		}
		sorted[key].things = append(sorted[key].things, r)
	}
	var list []holding
	for _, key := range slices.Sorted(maps.Keys(sorted)) {
		h := *sorted[key]
		slices.SortStableFunc(h.things, func(x, y Resource) int { // an engine removes children first
			return cmp.Or(cmp.Compare(x.Role, y.Role), cmp.Compare(x.ID, y.ID))
		})
		list = append(list, h)
	}
	return list
}

// verdict is what is to become of a thing, and why.
type verdict struct {
	remove bool
	reason string
}

func leave(format string, args ...any) verdict { return verdict{false, fmt.Sprintf(format, args...)} }

func remove(format string, args ...any) verdict { return verdict{true, fmt.Sprintf(format, args...)} }

// rules decide what is removed. They only ever name things of the inventory: one
// that is empty or lacks things makes them remove less.
type rules struct {
	ReapOptions

	now time.Time
	// life asks Temporal; an error means that it is not known.
	life func(workflowID string) (session.Life, error)
}

// judge gives a verdict for each thing of a holding. whole is true where all of
// a session is to go.
func (r rules) judge(h holding) (verdicts []verdict, whole bool) {
	var one func(Resource) verdict
	switch {
	case h.sessionID != "":
		one, whole = r.session(h)
	case h.snapshotID != "":
		one = r.snapshot(h)
	default:
		one = r.single
	}
	for _, t := range h.things {
		verdicts = append(verdicts, one(t))
	}
	return verdicts, whole
}

func (r rules) young(t Resource) bool { return r.now.Sub(t.Created) < r.MinAge }

func each(v verdict) func(Resource) verdict { return func(Resource) verdict { return v } }

// session judges the things of a session by its life.
func (r rules) session(h holding) (one func(Resource) verdict, whole bool) {
	life, err := r.life(session.WorkflowIDPrefix + h.sessionID)
	switch {
	case err != nil:
		return each(leave("whether its session lives is not known: %s", clipped(err))), false
	case life == session.LifeClosed:
		return each(remove("its session has ended")), true
	case life == session.LifeRunning:
		newest := newestSandbox(h.things)
		return func(t Resource) verdict { return r.ofLive(t, newest) }, false
	case slices.ContainsFunc(h.things, r.young):
		return each(leave("no session of its ID is known, but something of it was made less than %s ago", r.MinAge)), false
	}
	return each(remove("no session of its ID is known")), true
}

func newestSandbox(things []Resource) Resource {
	var newest Resource
	for _, t := range things {
		if t.Role == RoleSandbox && t.Incarnation > newest.Incarnation {
			newest = t
		}
	}
	return newest
}

// ofLive judges a thing of a session that lives. An incarnation begins to run
// when those before it are removed: what is there of them beside one that runs,
// and not since a moment ago, was left by a worker that died.
func (r rules) ofLive(t, newest Resource) verdict {
	if t.Role == RoleJournal || t.Incarnation >= newest.Incarnation || !newest.Running || r.young(newest) || r.young(t) {
		return leave("its session lives")
	}
	return remove("of incarnation %d of a session whose incarnation %d runs", t.Incarnation, newest.Incarnation)
}

// snapshot judges the images of a snapshot by the life of its workflow.
func (r rules) snapshot(h holding) func(Resource) verdict {
	life, err := r.life(session.SnapshotWorkflowIDPrefix + h.snapshotID)
	reason := "its snapshot was deleted"
	switch {
	case err != nil:
		return each(leave("whether its snapshot is kept is not known: %s", clipped(err)))
	case life == session.LifeRunning:
		return func(t Resource) verdict {
			if t.Role == RoleDerived {
				return r.derived(t)
			}
			return leave("its snapshot is kept")
		}
	case life == session.LifeUnknown:
		if v := r.claimed(h); !v.remove {
			return each(v)
		}
		reason = "no snapshot of its ID is known"
	}
	if slices.ContainsFunc(h.things, func(t Resource) bool { return t.InUse }) {
		return each(leave("%s, but a sandbox is made of it", reason))
	}
	return each(remove("%s", reason))
}

// claimed leaves the image of a snapshot without a workflow to the session that
// took it as long as that lives: it makes the image first and the workflow then,
// and there may be any time between, if no worker runs.
func (r rules) claimed(h holding) verdict {
	for _, t := range h.things {
		if t.Role != RoleSnapshot {
			continue
		}
		life, err := r.life(session.WorkflowIDPrefix + t.SessionID)
		switch {
		case err != nil:
			return leave("whether its session lives is not known: %s", clipped(err))
		case life == session.LifeRunning:
			return leave("no snapshot of its ID is known, but its session lives and may be making one of it")
		}
	}
	if slices.ContainsFunc(h.things, r.young) {
		return leave("no snapshot of its ID is known, but it was made less than %s ago", r.MinAge)
	}
	return remove("")
}

// single judges what belongs to no session and no snapshot.
func (r rules) single(t Resource) verdict {
	switch t.Role {
	case RoleDerived:
		return r.derived(t)
	case RoleBuild:
		if !r.young(t) {
			return remove("left by something that broke off")
		}
		return leave("made less than %s ago, and may be at work", r.MinAge)
	case RoleSpare:
		if !r.young(t) {
			return remove("a second network of that name")
		}
		return leave("made less than %s ago", r.MinAge)
	case RoleBridge:
		return leave("sandboxes share it")
	case RoleSandbox, RoleJournal, RoleVolume, RoleSnapshot:
	}
	return leave("labels, kind and name do not agree: it is somebody else's")
}

// derived judges an image with the guest in it: it can be made again at any
// time, which takes some seconds.
func (r rules) derived(t Resource) verdict {
	switch {
	case t.InUse:
		return leave("a sandbox is made of it")
	case t.Default:
		return leave("it is the default image's")
	case t.LastUsed.IsZero():
		return leave("the engine does not tell when it was used")
	case r.now.Sub(t.LastUsed) < r.UnusedFor:
		return leave("used within %s", r.UnusedFor)
	}
	return remove("not used for %s", r.UnusedFor)
}
