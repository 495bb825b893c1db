package activities

// For the tests of package activities_test.
var (
	CommandOut = commandOut
	ShapeChunk = shapeChunk
)
