package access

import "crypto/sha256"

// NewSingle takes whoever shows the one token that read gives for LocalOwner;
// datadir's Dir.Token is such a function. It is asked again once a second, so a
// token that is replaced counts without a restart.
func NewSingle(read func() (string, error), opts Options) (Authenticator, error) {
	var last [sha256.Size]byte
	s := &source{opts: opts.withDefaults(), load: func() ([]entry, bool, error) {
		token, err := read()
		if err != nil {
			return nil, false, err
		}
		sum := sha256.Sum256([]byte(token))
		changed := sum != last
		last = sum
		return []entry{{hash: sum, owner: LocalOwner}}, changed, nil
	}}
	if err := s.open(); err != nil {
		return nil, err
	}
	return s, nil
}
