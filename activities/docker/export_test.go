package docker

// For the tests of package docker_test.

// Classify reads an engine's word of itself.
var Classify = classify

// RequestName is how spans of requests to the engine are named.
var RequestName = requestName
