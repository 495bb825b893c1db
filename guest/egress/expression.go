package egress

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// An expression loads something into register 1, compares it, or decides. The
// first that does not match ends its rule.

func rule(chain string, expressions ...attr) message {
	return message{unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE | unix.NLM_F_APPEND, []attr{
		str(unix.NFTA_RULE_TABLE, tableName), str(unix.NFTA_RULE_CHAIN, chain), nest(unix.NFTA_RULE_EXPRESSIONS, expressions...),
	}}
}

func expression(name string, data ...attr) attr {
	return nest(unix.NFTA_LIST_ELEM, str(unix.NFTA_EXPR_NAME, name), nest(unix.NFTA_EXPR_DATA, data...))
}

// metaIs compares a property of the packet.
func metaIs(key uint32, value []byte) []attr {
	return []attr{
		expression("meta", be32(unix.NFTA_META_KEY, key), be32(unix.NFTA_META_DREG, unix.NFT_REG_1)),
		equals(value),
	}
}

func payload(base, offset, length uint32) attr {
	return expression("payload", be32(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1), be32(unix.NFTA_PAYLOAD_BASE, base),
		be32(unix.NFTA_PAYLOAD_OFFSET, offset), be32(unix.NFTA_PAYLOAD_LEN, length))
}

func masked(mask uint32) attr {
	return expression("bitwise", be32(unix.NFTA_BITWISE_SREG, unix.NFT_REG_1), be32(unix.NFTA_BITWISE_DREG, unix.NFT_REG_1),
		be32(unix.NFTA_BITWISE_LEN, 4),
		nest(unix.NFTA_BITWISE_MASK, be32(unix.NFTA_DATA_VALUE, mask)), nest(unix.NFTA_BITWISE_XOR, be32(unix.NFTA_DATA_VALUE, 0)))
}

func equals(value []byte) attr {
	return expression("cmp", be32(unix.NFTA_CMP_SREG, unix.NFT_REG_1), be32(unix.NFTA_CMP_OP, unix.NFT_CMP_EQ),
		nest(unix.NFTA_CMP_DATA, attr{kind: unix.NFTA_DATA_VALUE, data: value}))
}

func accept() attr { return verdict(be32(unix.NFTA_VERDICT_CODE, 1)) }

// jump goes to a chain and does not come back.
func jump(chain string) attr {
	code := unix.NFT_GOTO
	return verdict(be32(unix.NFTA_VERDICT_CODE, uint32(code)), str(unix.NFTA_VERDICT_CHAIN, chain)) //nolint:gosec // -4, as the kernel has it
}

func verdict(how ...attr) attr {
	return expression("immediate", be32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT),
		nest(unix.NFTA_IMMEDIATE_DATA, nest(unix.NFTA_DATA_VERDICT, how...)))
}

func reject(kind uint32, code byte) attr {
	return expression("reject", be32(unix.NFTA_REJECT_TYPE, kind), attr{kind: unix.NFTA_REJECT_ICMP_CODE, data: []byte{code}})
}

func interfaceName(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

func native32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
