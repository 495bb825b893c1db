package session

import (
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
)

// plainBytes is up to which size a payload goes as readable JSON. Temporal takes
// no payload over 2 MiB, and a call within its limits can exceed that: JSON
// writes a control character, and Go's also <, > and &, as six bytes. Size costs
// far below that too: a history is written to disk and continued as new at 4 MiB.
const plainBytes = 256 << 10

// DataConverter is for every client and worker that takes part in sessions: JSON
// as Temporal's own, with what is over 256 KiB compressed (zlib, as by
// converter.NewZlibCodec). The limits of operations keep it below 2 MiB then.
func DataConverter() converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(),
		largeCodec{converter.NewZlibCodec(converter.ZlibCodecOptions{})})
}

// largeCodec applies a codec to large payloads only, so that Temporal's UI shows
// the others.
type largeCodec struct{ converter.PayloadCodec }

// Encode implements converter.PayloadCodec. Decode is the codec's own: it leaves
// alone what it did not encode.
func (c largeCodec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if len(p.GetData()) <= plainBytes {
			out[i] = p
			continue
		}
		encoded, err := c.PayloadCodec.Encode([]*commonpb.Payload{p})
		if err != nil {
			return nil, err
		}
		out[i] = encoded[0]
	}
	return out, nil
}
