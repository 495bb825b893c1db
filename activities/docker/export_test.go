package docker

// RequestName is how spans of requests to the engine are named.
var RequestName = requestName
