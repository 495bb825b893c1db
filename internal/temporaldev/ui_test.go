package temporaldev_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/mcp-sandbox/mcp-sandbox/internal/temporaldev"
)

const (
	token      = "the-token"
	namespaces = "/api/v1/namespaces"
)

func isToken(got string) bool { return got == token }

// served is a UI behind a real listener.
func served(t *testing.T, s *temporaldev.Server, auth func(string) bool) (*temporaldev.UI, *httptest.Server) {
	t.Helper()
	u, err := temporaldev.StartUI(t.Context(), temporaldev.UIOptions{FrontendAddress: s.Address(), Secret: s.Secret()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, u.Close()) })
	web := httptest.NewServer(u.Handler(auth))
	t.Cleanup(web.Close)
	return u, web
}

type answer struct {
	*http.Response
	body string
}

func get(t *testing.T, c *http.Client, address string, change func(*http.Request)) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	if change != nil {
		change(r)
	}
	resp, err := c.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp, string(body)}
}

func bearer(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }

func TestUI(t *testing.T) {
	stdout := captureStdout(t)
	s := start(t, temporaldev.Options{})
	valid := true
	u, web := served(t, s, func(got string) bool { return valid && isToken(got) })
	stay := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

	t.Run("nobody gets in without the token", func(t *testing.T) {
		for _, path := range []string{"/", namespaces, "/healthz", "/_app/version.json", "/?token=", "/?token=wrong", namespaces + "?token=wrong"} {
			got := get(t, stay, web.URL+path, nil)
			require.Equal(t, http.StatusUnauthorized, got.StatusCode, path)
			require.Contains(t, got.body, "mcp-sandbox serve", path)
			require.Empty(t, got.Cookies())
		}
		got := get(t, stay, web.URL+namespaces, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+s.Secret()) })
		require.Equal(t, http.StatusUnauthorized, got.StatusCode, "the frontend's secret is no token")
	})
	t.Run("a program sends the bearer", func(t *testing.T) {
		got := get(t, stay, web.URL+namespaces, bearer)
		require.Equal(t, http.StatusOK, got.StatusCode, got.body)
		require.Contains(t, got.body, `"default"`)
	})
	t.Run("a browser exchanges the link for a cookie", func(t *testing.T) {
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		got := get(t, &http.Client{Jar: jar, CheckRedirect: stay.CheckRedirect}, web.URL+"//evil.example/?token="+token+"&x=1", nil)
		require.Equal(t, http.StatusSeeOther, got.StatusCode)
		require.Equal(t, "/evil.example/?x=1", got.Header.Get("Location"), "no token, no other host")
		require.Len(t, got.Cookies(), 1)
		cookie := got.Cookies()[0]
		require.True(t, cookie.HttpOnly)
		require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
		require.Equal(t, "/", cookie.Path)
		require.NotContains(t, cookie.Value, token)
		at, err := url.Parse(web.URL)
		require.NoError(t, err)
		require.Equal(t, "mcp-sandbox-ui-"+at.Port(), cookie.Name)

		browser := &http.Client{Jar: jar}
		got = get(t, browser, web.URL+namespaces, nil)
		require.Equal(t, http.StatusOK, got.StatusCode, got.body)
		got = get(t, browser, web.URL+"/namespaces/default/workflows", nil)
		require.Equal(t, http.StatusOK, got.StatusCode)
		require.Contains(t, got.body, "<html")

		valid = false
		got = get(t, browser, web.URL+namespaces, nil)
		require.Equal(t, http.StatusUnauthorized, got.StatusCode, "a token that was withdrawn opens nothing")
		valid = true
		got = get(t, stay, web.URL+namespaces, func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value[:len(cookie.Value)-4] + "AAAA"})
		})
		require.Equal(t, http.StatusUnauthorized, got.StatusCode, "a forged cookie")
	})
	t.Run("other names and other sites are refused", func(t *testing.T) {
		got := get(t, stay, web.URL+namespaces, func(r *http.Request) { bearer(r); r.Host = "rebind.example" })
		require.Equal(t, http.StatusForbidden, got.StatusCode)
		got = get(t, stay, web.URL+namespaces, func(r *http.Request) { bearer(r); r.Host = "localhost:1234" })
		require.Equal(t, http.StatusOK, got.StatusCode, "a forwarded port")
		for _, origin := range []string{"http://evil.example", "http://127.0.0.1:1", "null"} {
			got = get(t, stay, web.URL+namespaces, func(r *http.Request) {
				bearer(r)
				r.Method = http.MethodPost
				r.Header.Set("Origin", origin)
			})
			require.Equal(t, http.StatusForbidden, got.StatusCode, origin)
		}
	})
	t.Run("a link on another site is tried once more", func(t *testing.T) {
		cross := func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Dest", "document")
		}
		got := get(t, stay, web.URL+"/namespaces/default", cross)
		require.Equal(t, http.StatusUnauthorized, got.StatusCode)
		require.Equal(t, "0; url=/namespaces/default?mcp-sandbox-retry=1", got.Header.Get("Refresh"))
		got = get(t, stay, web.URL+"/namespaces/default?mcp-sandbox-retry=1", cross)
		require.Empty(t, got.Header.Get("Refresh"))
	})
	t.Run("raw histories carry the secret", func(t *testing.T) {
		run, err := dial(t, s).ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "session/raw", TaskQueue: "nobody"}, "W")
		require.NoError(t, err)
		got := get(t, stay, web.URL+namespaces+"/default/workflows/"+url.PathEscape(url.PathEscape(run.GetID()))+
			"/run/"+run.GetRunID()+"/history.json", bearer)
		require.Equal(t, http.StatusOK, got.StatusCode)
		require.NotContains(t, got.body, "error")
		require.Contains(t, got.body, "event_id")
	})
	t.Run("the pages alone hold no secret", func(t *testing.T) {
		for _, token := range []string{"", token} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, namespaces, nil)
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			u.Pages().ServeHTTP(w, r)
			require.Equal(t, http.StatusForbidden, w.Code)
			require.Contains(t, w.Body.String(), "unauthorized")
		}
	})
	s.Stop()
	require.Empty(t, stdout(), "stdout is the MCP transport")
}

func TestUINeedsAFrontend(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := temporaldev.StartUI(ctx, temporaldev.UIOptions{FrontendAddress: "127.0.0.1:1"})
	require.ErrorContains(t, err, "temporal ui")
}

// captureStdout swaps os.Stdout for a file; the function it returns gives what was
// written.
func captureStdout(t *testing.T) func() string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "stdout")
	require.NoError(t, err)
	old := os.Stdout
	os.Stdout = file
	t.Cleanup(func() { os.Stdout = old })
	return func() string {
		os.Stdout = old
		raw, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		return strings.TrimSpace(string(raw))
	}
}
