package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/mcp-sandbox/mcp-sandbox/internal/background"
	"github.com/mcp-sandbox/mcp-sandbox/internal/control"
	"github.com/mcp-sandbox/mcp-sandbox/session"
)

// checkPorts looks whether a server could listen. A running one has its ports.
func (d *doctor) checkPorts(ctx context.Context) []finding {
	if d.holder != "" {
		return nil
	}
	findings := []finding{checkPort(ctx, "MCP port", "--listen", d.listen, defaultListen)}
	if d.ui != "off" && d.temporal.address == "" {
		findings = append(findings, checkPort(ctx, "UI port", "--temporal-ui", d.ui, defaultUI))
	}
	return findings
}

func checkPort(ctx context.Context, check, flag, addr, fallback string) finding {
	f := finding{Check: check, Status: verdictOK, Detail: addr + " is free"}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	switch {
	case err == nil:
		_ = l.Close()
	case errors.Is(err, syscall.EADDRINUSE) && addr == fallback:
		f.Status, f.Detail = verdictWarn, addr+" is taken; serve takes a free port instead, and prints it"
		f.Remedy = "stop the program that has it (ss -ltnp shows which), or give " + flag
	case errors.Is(err, syscall.EADDRINUSE):
		f.Status, f.Detail = verdictFail, addr+" is taken"
		f.Remedy = "stop the program that has it (ss -ltnp shows which), or give another " + flag
	default:
		f.Status, f.Detail, f.Remedy = verdictFail, err.Error(), "give another "+flag+", such as "+fallback
	}
	return f
}

// checkServer asks a running server whether it is ready.
func (d *doctor) checkServer(ctx context.Context) []finding {
	f := finding{Check: "server", Status: verdictOK}
	if d.holder == "" {
		f.Status, f.Detail = verdictSkip, "none runs on this data dir"
		f.Remedy = "mcp-sandbox stdio starts one when a client needs it; or start one with: mcp-sandbox serve --data-dir " + shellWord(d.dataDir)
		return []finding{f}
	}
	addr, ok := listensOn(d.holder)
	if !ok {
		f.Detail = d.holder
		return []finding{f}
	}
	status, text, err := askReady(ctx, addr)
	switch {
	case err != nil:
		f.Status, f.Detail, f.Remedy = verdictFail, "it does not answer: "+err.Error(), "look at its log; stop it and start it again: sessions go on"
	case status != http.StatusOK:
		f.Status, f.Detail, f.Remedy = verdictFail, fmt.Sprintf("%s: %s", addr, text), "look at its log, and at the other checks here"
	default:
		f.Detail = "ready, on " + addr
	}
	return []finding{f, d.checkSocket(ctx)}
}

// checkSocket asks a running server by the socket that mcp-sandbox stdio uses.
func (d *doctor) checkSocket(ctx context.Context) finding {
	f := finding{Check: "stdio", Status: verdictOK}
	h, err := control.NewClient(d.dataDir).Hello(ctx)
	switch {
	case err != nil:
		f.Status, f.Detail = verdictFail, "the server does not answer on its socket: "+err.Error()
		f.Remedy = "mcp-sandbox stdio cannot use it: stop it and start it again, or look at its log; sessions go on"
	case !h.Speaks():
		f.Status, f.Detail = verdictFail, fmt.Sprintf("the server (version %s) and this program (version %s) speak different protocols", h.Version, version)
		f.Remedy = "stop it and start it again with this program; sessions go on"
	case h.Background:
		f.Detail = fmt.Sprintf("version %s in the background, pid %d; mcp-sandbox shutdown ends it; its log is %s", h.Version, h.PID, d.dataDir+"/"+background.LogFile)
	default:
		f.Detail = fmt.Sprintf("version %s, pid %d", h.Version, h.PID)
	}
	return f
}

// listensOn finds the address in what a lock says about its holder: "a server,
// listening on 127.0.0.1:8765 (pid 7)". A wildcard address is reached on loopback.
func listensOn(holder string) (string, bool) {
	_, rest, _ := strings.Cut(holder, "listening on ")
	addr, _, _ := strings.Cut(rest, " ")
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", false
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.To4() == nil {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port), true
}

// askReady asks for /readyz, in clear text or with TLS, whichever is spoken.
func askReady(ctx context.Context, addr string) (status int, text string, err error) {
	// Nothing secret is sent, and the certificate is for another name than this.
	unverified := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	defer unverified.CloseIdleConnections()
	for _, scheme := range []string{"http", "https"} {
		var req *http.Request
		if req, err = http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+addr+"/readyz", nil); err != nil {
			return 0, "", err
		}
		var resp *http.Response
		if resp, err = (&http.Client{Transport: unverified}).Do(req); err != nil {
			continue
		}
		body, readErr := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		_ = resp.Body.Close()
		if status, text, err = resp.StatusCode, strings.TrimSpace(string(body)), readErr; status != http.StatusBadRequest {
			break // 400 is how a TLS server answers clear text
		}
	}
	return status, text, err
}

// checkTemporal looks whether Temporal answers, and whether a worker asks it for
// work.
func (d *doctor) checkTemporal(ctx context.Context) []finding {
	f := finding{Check: "temporal", Status: verdictOK}
	if d.holder == "" && d.temporal.address == "" {
		f.Status, f.Detail = verdictSkip, "the embedded one runs with a server"
		return []finding{f}
	}
	c, err := dialRunning(ctx, d.temporal, d.dataDir, d.log)
	if err != nil {
		f.Status, f.Detail, f.Remedy = verdictFail, causeOf(err), "look at the server's log; if it has a Temporal of its own, give the same --temporal-address here"
		return []finding{f}
	}
	defer c.Close()
	f.Detail = "answers"
	return []finding{f, checkWorkers(ctx, c)}
}

// causeOf gives the cause of a notRunningError: here a server does run.
func causeOf(err error) string {
	if e, ok := errors.AsType[*notRunningError](err); ok {
		return e.cause.Error()
	}
	return err.Error()
}

// pollerGone is when a poller that was not heard of is gone: it asks once a minute.
const pollerGone = 90 * time.Second

func checkWorkers(ctx context.Context, c client.Client) finding {
	f := finding{Check: "workers", Status: verdictOK}
	queue, err := c.DescribeTaskQueue(ctx, session.TaskQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		f.Status, f.Detail, f.Remedy = verdictFail, err.Error(), "look at Temporal's log"
		return f
	}
	names := map[string]bool{}
	for _, p := range queue.GetPollers() { // of the last 5 min
		if time.Since(p.GetLastAccessTime().AsTime()) < pollerGone {
			names[p.GetIdentity()] = true
		}
	}
	if len(names) == 0 {
		f.Status, f.Detail = verdictFail, "none asks Temporal for work, so that no session goes on"
		f.Remedy = "start one: mcp-sandbox serve without --no-worker, or mcp-sandbox worker"
		return f
	}
	f.Detail = fmt.Sprintf("%d asked Temporal for work lately", len(names))
	return f
}
