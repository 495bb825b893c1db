package temporaldev

import "net/http"

// Pages is the UI without the check in front of it, as if the UI server had a port.
func (u *UI) Pages() http.Handler { return u.pages }
