package tools

// nearest gives the name most like a misspelt one, or "" where none is close:
// the share of both that their longest common subsequence covers must be over
// half, and an abbreviation counts for more. That finds timeout_seconds for
// timeout, command for cmd, old_str for old_string and path for file_path.
func nearest(name string, names []string) string {
	const least = 0.5
	best, found := least, ""
	for _, candidate := range names {
		if s := similarity(name, candidate); s > best {
			best, found = s, candidate
		}
	}
	return found
}

func similarity(a, b string) float64 {
	const most = 128 // the work is the product of the lengths
	if len(a) == 0 || len(b) == 0 || len(a) > most {
		return 0
	}
	row := make([]int, len(b)+1)
	for i := range len(a) {
		diagonal := 0
		for j := range len(b) {
			above := row[j+1]
			if a[i] == b[j] {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	common := row[len(b)]
	share := 2 * float64(common) / float64(len(a)+len(b))
	if common == min(len(a), len(b)) && a[0] == b[0] {
		share += 0.25
	}
	return share
}
