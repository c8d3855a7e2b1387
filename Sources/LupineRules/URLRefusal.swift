/// Why a text is not a URL that this package can fetch.
///
/// No case carries text of the input except a scheme, which by then is known to be ASCII letters, digits, `+`, `-` and `.`:
/// a refusal can be printed without escaping.
package enum URLRefusal: Error, Hashable, Sendable {
  /// The text has more than `limit` bytes.
  case tooLong(count: Int, limit: Int)
  /// The text has no scheme, and there is no base to take one from.
  case missingScheme
  /// The scheme, lower-cased, is neither `http` nor `https`.
  case unsupportedScheme(String)
  /// The scheme is not followed by `//`.
  case missingAuthority
  /// A control character (C0 or DEL) at `offset`: nothing that could end a line is ever repaired.
  case control(UInt8, offset: Int)
  /// A byte at `offset` that may not stand in an authority (RFC 3986 section 3.2), a second `@` for example.
  case invalidAuthorityByte(UInt8, offset: Int)
  /// The port is not 1…65535 in at most five decimal digits.
  case invalidPort
  /// The host cannot be used.
  case invalidHost(HostRefusal)
}

/// Why a host is refused. One rule for every host: in a URL, a `Location`, a proxy setting.
package enum HostRefusal: Error, Hashable, Sendable {
  /// There is no host.
  case empty
  /// A byte that stands in no host name; also what a percent-encoded octet stands for, when it is ASCII (`%2F`).
  case invalidByte(UInt8)
  /// The name has an empty label (`a..b`, `.a`).
  case emptyLabel
  /// A label has more than 63 bytes in its ASCII form.
  case labelTooLong(Int)
  /// The name has more than 253 bytes in its ASCII form, the final dot aside.
  case nameTooLong(Int)
  /// The last label is a number, so that some software reads the host as an IPv4 address, but it is not four decimal
  /// octets without leading zeros: `127.1`, `0x7f.1`, `2130706433`, `1.2.3.04`, `1.2.3.4.`.
  case ambiguousIPv4
  /// The text in brackets is not an IPv6 address, or the brackets do not match.
  case invalidIPv6
  /// The zone is empty, too long (15 bytes), has bytes outside RFC 3986's unreserved set, is not introduced by `%25`,
  /// or belongs to an address that is not link-local.
  case invalidZone
  /// Bytes from 0x80 up that are not UTF-8.
  case notUTF8
  /// The name is not in normalisation form C; composing it silently would make two spellings of one host.
  case notNormalised
  /// A character that IDNA 2008 (RFC 5892) does not permit, or that would have to be mapped first (full-width forms,
  /// ligatures, ideographic dots, joiners, bidirectional controls).
  case disallowedScalar(UInt32)
  /// A label of mixed writing directions (a stricter form of RFC 5893), or one that mixes two sets of Arabic digits.
  case mixedDirections
  /// A Unicode label begins or ends with a hyphen, has hyphens in third and fourth place, or begins with a combining mark.
  case invalidLabelForm
  /// A label begins with `xn--` but is not the Punycode of any label in its one right spelling.
  case invalidPunycode
}
