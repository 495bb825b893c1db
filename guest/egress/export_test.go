package egress

// Gateways is for tests.
var Gateways = gateways
