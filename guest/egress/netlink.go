package egress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// answerWithin bounds the wait for the kernel, which answers in the same call.
const answerWithin = 5 * time.Second

// message is one of nf_tables, for family inet.
type message struct {
	kind  uint16 // NFT_MSG_*
	flags uint16 // beside NLM_F_REQUEST
	attrs []attr
}

// attr is a netlink attribute, with data or with others in it.
type attr struct {
	kind   uint16
	data   []byte
	inner  []attr
	nested bool
}

func str(kind uint16, s string) attr { return attr{kind: kind, data: append([]byte(s), 0)} }

func be32(kind uint16, v uint32) attr {
	return attr{kind: kind, data: binary.BigEndian.AppendUint32(nil, v)}
}

func nest(kind uint16, inner ...attr) attr { return attr{kind: kind, inner: inner, nested: true} }

// appendTo writes length, kind and contents, padded to 4 bytes.
func (a attr) appendTo(b []byte) []byte {
	start, kind := len(b), a.kind
	if a.nested {
		kind |= unix.NLA_F_NESTED
	}
	b = append(b, 0, 0)
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, a.data...)
	for _, i := range a.inner {
		b = i.appendTo(b)
	}
	binary.NativeEndian.PutUint16(b[start:], uint16(len(b)-start)) //nolint:gosec // a rule's few hundred bytes
	for len(b)%unix.NLA_ALIGNTO != 0 {
		b = append(b, 0)
	}
	return b
}

// encode makes the bytes of one transaction; the kernel acknowledges the last
// message, and every faulty one.
func encode(batch []message) []byte {
	b := appendMessage(nil, unix.NFNL_MSG_BATCH_BEGIN, 0, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
	for i, m := range batch {
		flags := m.flags
		if i == len(batch)-1 {
			flags |= unix.NLM_F_ACK
		}
		b = appendMessage(b, unix.NFNL_SUBSYS_NFTABLES<<8|m.kind, flags, uint32(i+1), unix.NFPROTO_INET, 0, m.attrs)
	}
	return appendMessage(b, unix.NFNL_MSG_BATCH_END, 0, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
}

func appendMessage(b []byte, kind, flags uint16, seq uint32, family byte, resource uint16, attrs []attr) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags|unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 0) // the kernel fills in the port
	b = append(b, family, unix.NFNETLINK_V0)
	b = binary.BigEndian.AppendUint16(b, resource)
	for _, a := range attrs {
		b = a.appendTo(b)
	}
	binary.NativeEndian.PutUint32(b[start:], uint32(len(b)-start)) //nolint:gosec // see MaxDenied
	return b
}

// commit sends a transaction and waits until it holds. Nothing of it does after
// an error.
func commit(batch []message) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return unsupported(err)
	}
	defer func() { _ = unix.Close(fd) }()
	limit := unix.NsecToTimeval(answerWithin.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return fmt.Errorf("netlink socket: %w", err)
	}
	if err := unix.Sendto(fd, encode(batch), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return unsupported(err)
	}
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("the kernel's answer: %w", err)
		}
		done, err := acknowledged(buf[:n], uint32(len(batch))) //nolint:gosec // few
		if err != nil {
			return unsupported(err)
		}
		if done {
			return nil
		}
	}
}

// acknowledged looks for an error, or the word that the last message was taken.
func acknowledged(b []byte, last uint32) (bool, error) {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return false, fmt.Errorf("the kernel's answer: %w", err)
	}
	for _, m := range messages {
		if m.Header.Type != unix.NLMSG_ERROR || len(m.Data) < 4 {
			continue
		}
		if code := int32(binary.NativeEndian.Uint32(m.Data)); code != 0 { //nolint:gosec // a negative errno
			return false, unix.Errno(-code) //nolint:gosec // positive
		}
		if m.Header.Seq == last {
			return true, nil
		}
	}
	return false, nil
}

// unsupported says in words what most faults come from.
func unsupported(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("no right to set a packet filter (CAP_NET_ADMIN was not given, or a security module forbids it): %w", err)
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EOPNOTSUPP),
		errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
		return fmt.Errorf("the kernel has no packet filter with what is needed (nf_tables with families inet and reject): %w", err)
	}
	return fmt.Errorf("set the packet filter: %w", err)
}
