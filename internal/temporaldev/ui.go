package temporaldev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/temporalio/ui-server/v2/server/api"
	"github.com/temporalio/ui-server/v2/server/config"
	uiheaders "github.com/temporalio/ui-server/v2/server/headers"
	"github.com/temporalio/ui-server/v2/server/route"
	"github.com/temporalio/ui-server/v2/server/rpc"
	"github.com/temporalio/ui-server/v2/ui"
	workflowservicepb "go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

const (
	uiConnectTimeout = 10 * time.Second
	// frontendHealth is the name under which the frontend reports its health.
	frontendHealth = "temporal.api.workflowservice.v1.WorkflowService"
)

// UIOptions of StartUI.
type UIOptions struct {
	// FrontendAddress is Temporal's frontend, host:port. Required.
	FrontendAddress string
	// Namespace the UI opens with. Default DefaultNamespace.
	Namespace string
	// Secret that UI.Handler adds for a caller it let in. Empty for a frontend that
	// asks for none.
	Secret string
	// Logger gets the UI's warnings and errors. Default: they are dropped.
	Logger *slog.Logger
}

// UI is Temporal's web UI for one frontend. It has no port of its own: the caller
// serves Handler. Whoever started it closes it.
type UI struct {
	pages  http.Handler
	conn   *grpc.ClientConn
	secret string
	cookie *sealer
}

// StartUI makes the UI and waits until the frontend answers, at most 10 s.
//
// It puts together the parts of temporalio/ui-server (see NewServer there), because
// the whole one listens on a port that every local user can reach, ends the process
// when it cannot, prints to stdout and sends raw histories without the secret.
func StartUI(ctx context.Context, opts UIOptions) (*UI, error) {
	if opts.Namespace == "" {
		opts.Namespace = DefaultNamespace
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	cookie, err := newSealer()
	if err != nil {
		return nil, fmt.Errorf("temporal ui: %w", err)
	}
	conn, err := rpc.Dial(opts.FrontendAddress, nil)
	if err != nil {
		return nil, fmt.Errorf("temporal ui: %w", err)
	}
	pages, err := uiPages(conn, opts) //nolint:contextcheck // its handlers have their requests' contexts
	if err == nil {
		err = awaitFrontend(ctx, conn)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("temporal ui: %w", err), conn.Close())
	}
	return &UI{pages: pages, conn: conn, secret: opts.Secret, cookie: cookie}, nil
}

// Close ends the connection to the frontend. Handlers answer with errors after it.
func (u *UI) Close() error { return u.conn.Close() }

func awaitFrontend(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, uiConnectTimeout)
	defer cancel()
	_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx,
		&grpc_health_v1.HealthCheckRequest{Service: frontendHealth}, grpc.WaitForReady(true))
	return err
}

// uiPages is the UI server's pages and API. They hold no secret: they forward the
// Authorization header of each request to the frontend.
func uiPages(conn *grpc.ClientConn, opts UIOptions) (http.Handler, error) {
	provider, err := config.NewConfigProviderWithRefresh(&config.Config{
		TemporalGRPCAddress: opts.FrontendAddress,
		DefaultNamespace:    opts.Namespace,
		EnableUI:            true,
		HideLogs:            true,
		DisableNewsFetch:    true, // nothing leaves the machine
	})
	if err != nil {
		return nil, err
	}
	all, err := ui.Assets()
	if err != nil {
		return nil, err
	}
	assets, err := fs.Sub(all, "local")
	if err != nil {
		return nil, err
	}

	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Logger.SetOutput(io.Discard) // stdout by default
	e.Use(
		middleware.RecoverWithConfig(middleware.RecoverConfig{
			DisableStackAll: true,
			LogErrorFunc: func(c echo.Context, err error, stack []byte) error {
				opts.Logger.ErrorContext(c.Request().Context(), "temporal ui panic",
					slog.Any("error", err), slog.String("stack", string(stack)))
				return err
			},
		}),
		middleware.Gzip(),
		middleware.Secure(),
	)
	// The UI server's CORS and CSRF middleware are left out: Handler allows no other
	// origin.
	write := route.DisableWriteMiddleware(provider)
	v1 := e.Group("/api/v1")
	v1.GET("/settings", api.GetSettings(provider))
	v1.GET(api.WorkflowRawHistoryUrl,
		api.WorkflowRawHistoryHandler(workflowservicepb.NewWorkflowServiceClient(conn)), write, forwardAuthorization)
	forwarded := []api.Middleware{uiheaders.WithForwardHeaders([]string{"Caller-Type"})}
	v1.Match([]string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, "/*",
		api.TemporalAPIHandler(provider, forwarded, conn), write)
	route.SetHealthRoute(e)
	if err := route.SetUIRoutes(e, "", assets); err != nil {
		return nil, err
	}
	route.SetRenderRoute(e, "")
	return e, nil
}

// forwardAuthorization does for the raw history what the gateway does for the rest
// of the API.
func forwardAuthorization(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if value := r.Header.Get(echo.HeaderAuthorization); value != "" {
			c.SetRequest(r.WithContext(metadata.AppendToOutgoingContext(r.Context(), authorizationHeader, value)))
		}
		return next(c)
	}
}
