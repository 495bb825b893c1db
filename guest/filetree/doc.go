// Package filetree takes file trees apart and puts them together again, for
// `mcp-sandbox cp`: on the host, and inside the sandbox with the sandbox user's
// identity.
//
// Scan walks a tree in the order of a manifest and hands on entries and
// contents. Apply makes the tree that a manifest describes. ManifestWriter and
// ManifestReader are the manifest's form at rest: JSON, one line for the header
// and one for each entry, so that nobody has to hold it in memory. Frames
// (frame.go) are the form in which entries and contents travel.
//
// What it promises: nothing outside the named folder is touched (os.Root), links
// are recreated and never followed, every file appears whole or not at all (a
// temporary file named .mcp-sandbox-* beside it, then a rename), its content
// has the digest that its entry says, and memory does not grow with the size of
// files. Every reader of a manifest checks it anew: it may come from a sandbox.
//
// Kept are permission bits, modification times of files and folders, and links.
// Not kept are owner, setuid, setgid and sticky bits (noted), hard links (each
// name becomes a file), extended attributes and ACLs. FIFOs, sockets, devices
// and what cannot be read are left out and noted.
//
// It stands on the standard library alone, imports nothing of ours, and runs on
// every Unix, as hosts need not be Linux.
package filetree
