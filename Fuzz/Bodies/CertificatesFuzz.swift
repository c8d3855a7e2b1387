internal import LupineSession
internal import LupineTLS

/// Oracle: the pin of a certificate is the SHA-256 of what a plain walk over its DER finds at the public key's place, and bytes behind a
/// certificate make it none; a chain that nobody vouches for is never trusted, nor for a host that it does not name; a name of a certificate
/// matches a host by the letter of RFC 9525, and a constraint holds a host by that of RFC 5280, by code that shares nothing with the check; a text in
/// PEM has the certificates that a plain reading finds, whatever ends its lines, and whatever private keys stand beside them, and is taken only whole.
///
/// The first byte chooses: with 0x40 in it PEM, 1,025 times with 0x80; else DER of one certificate; a chain, each certificate behind its length in
/// two bytes, the lower first; or a host and, behind a line end, a name as it would stand in a certificate, or a subtree among an authority's
/// constraints.
package enum CertificatesFuzz {
  package static func run(bytes: [UInt8]) {
    guard let choice = bytes.first else { return }
    let rest = Array(bytes.dropFirst())
    switch choice % 3 {
    case _ where choice & 0x40 != 0: CertificateTexts.check(rest, isRepeated: choice & 0x80 != 0)
    case 0: pin(rest)
    case 1: chain(rest, isSelfTrusted: choice & 0x80 != 0)
    default: match(rest)
    }
  }

  // MARK: Pins

  private static func pin(_ der: [UInt8]) {
    guard let digest = publicKeyDigest(ofCertificate: der) else { return }
    precondition(digest.count == 32)
    precondition(publicKeyDigest(ofCertificate: der + [0]) == nil, "bytes behind a certificate are overlooked")
    precondition(publicKeyDigest(ofCertificate: Array(der.dropLast())) == nil, "a certificate that is cut is taken")
    // OpenSSL reads BER, and writes what it read as DER: only where it was DER already can the bytes be compared.
    guard let key = Element.publicKey(of: der), Element.isDistinguished(der[key]) else { return }
    precondition(MessageDigest.hash(.sha256, Array(der[key])) == digest, "the pin is not that of the public key")
  }

  /// One element of DER: as much of X.690 as a walk to the public key takes.
  private struct Element {
    var tag: UInt8
    var content: Range<Int>

    init?(_ bytes: ArraySlice<UInt8>) {
      guard bytes.count >= 2, let first = bytes.first, first & 0x1F != 0x1F else { return nil }
      tag = first
      var length = Int(bytes[bytes.startIndex + 1])
      var start = bytes.startIndex + 2
      if length >= 0x80 {
        let count = length & 0x7F
        guard (1...3).contains(count), bytes.endIndex - start >= count else { return nil }
        length = bytes[start..<start + count].reduce(0) { $0 << 8 | Int($1) }
        // The shortest form is the only one.
        guard length >= 0x80, count == 1 || length >> (8 * (count - 1)) > 0 else { return nil }
        start += count
      }
      guard bytes.endIndex - start >= length else { return nil }
      content = start..<start + length
    }

    /// Certificate, its first part, and there the seventh element; the sixth if the version is left out.
    static func publicKey(of der: [UInt8]) -> Range<Int>? {
      guard let certificate = Element(der[...]), let body = Element(der[certificate.content]) else { return nil }
      var position = body.content.lowerBound
      var left = 6
      while let element = Element(der[position..<body.content.upperBound]) {
        if element.tag != 0xA0 || left < 6 { left -= 1 }
        if left == 0 { return position..<element.content.upperBound }
        position = element.content.upperBound
      }
      return nil
    }

    /// SEQUENCE of SEQUENCE and of a BIT STRING without unused bits.
    static func isDistinguished(_ bytes: ArraySlice<UInt8>) -> Bool {
      guard let key = Element(bytes), key.tag == 0x30, let algorithm = Element(bytes[key.content]),
        algorithm.tag == 0x30,
        isAllDistinguished(bytes[algorithm.content]),
        let bits = Element(bytes[algorithm.content.upperBound..<key.content.upperBound]), bits.tag == 0x03,
        bits.content.upperBound == key.content.upperBound
      else { return false }
      return !bits.content.isEmpty && bytes[bits.content.lowerBound] == 0
    }

    private static func isAllDistinguished(_ bytes: ArraySlice<UInt8>) -> Bool {
      var rest = bytes
      while !rest.isEmpty {
        guard let element = Element(rest) else { return false }
        // Strings in parts are put together, and bits that nobody reads are cleared.
        if element.tag & 0xE0 == 0x20, element.tag != 0x30, element.tag != 0x31 { return false }
        if element.tag == 0x03, bytes[element.content].first != 0 { return false }
        if element.tag & 0x20 != 0, !isAllDistinguished(bytes[element.content]) { return false }
        rest = bytes[element.content.upperBound...]
      }
      return true
    }
  }

  // MARK: Chains

  private static let host = try? ServerName("localhost")
  /// In the lives of the seeds.
  private static let now: Int64 = 1_790_000_000

  private static func chain(_ bytes: [UInt8], isSelfTrusted: Bool) {
    var rest = bytes[...]
    var chain: [[UInt8]] = []
    while rest.count >= 2, chain.count < 20 {
      let length = Int(rest[rest.startIndex]) | Int(rest[rest.startIndex + 1]) << 8
      rest = rest.dropFirst(2)
      chain.append(Array(rest.prefix(length)))
      rest = rest.dropFirst(length)
    }
    let areCertificates = chain.allSatisfy { publicKeyDigest(ofCertificate: $0) != nil }
    let anchors = isSelfTrusted && areCertificates ? Array(chain.suffix(1)) : []
    guard let report = try? verify(chain: chain, anchors: .certificates(anchors), host: host, now: now) else {
      // Anchors that OpenSSL does not keep are the only thing that is no report.
      return precondition(isSelfTrusted, "a chain without anchors is no report")
    }
    precondition(report.isVerified && report.chainSent == chain)
    precondition(!anchors.isEmpty || report.verdict != nil && report.path != nil, "trust without an anchor")
    precondition(areCertificates || report.path != nil, "what is no certificate is trusted")
    // Not the bytes: OpenSSL writes a bit string with unused bits in the one form of DER.
    precondition(
      report.chainBuilt.first.map { publicKeyDigest(ofCertificate: $0) == publicKeyDigest(ofCertificate: chain[0]) }
        ?? true, "the path begins elsewhere")
    guard report.host == nil, report.path != .missing, report.path != .malformed else { return }
    precondition(
      contains(Array("localhost".utf8), in: chain[0].map { $0 | 0x20 }), "a host that the certificate does not name")
  }

  private static func contains(_ pattern: [UInt8], in bytes: [UInt8]) -> Bool {
    bytes.indices.contains { bytes[$0...].starts(with: pattern) }
  }

  // MARK: Names

  private static func match(_ bytes: [UInt8]) {
    let lines = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 1, omittingEmptySubsequences: false)
    guard lines.count == 2, let name = try? ServerName(String(decoding: lines[0], as: UTF8.self)) else { return }
    guard let again = try? ServerName(name.host) else { preconditionFailure("a host cannot be read back") }
    precondition(again == name, "a host reads back as another")
    let presented = Array(lines[1])
    precondition(name.matches(.dns(presented)) == expected(name, presented), "another answer than that of RFC 9525")
    precondition(name.indication == nil || !name.matches(.address(presented)), "an address is a name")
    constrain(name, presented)
    guard name.matches(.address(presented)) else { return }
    precondition(presented.count == 4 || presented.count == 16, "an address of \(presented.count) bytes")
  }

  private static func expected(_ name: ServerName, _ presented: [UInt8]) -> Bool {
    guard let host = name.indication, presented.allSatisfy({ $0 < 0x80 }) else { return false }
    let pattern = String(decoding: presented, as: UTF8.self).lowercased()
    let wanted = host.split(separator: ".", omittingEmptySubsequences: false)
    let given = pattern.split(separator: ".", omittingEmptySubsequences: false)
    if pattern == host { return true }
    // A URL may have such a host; no wildcard stands before such a label.
    guard !given.contains(where: { $0.first == "-" || $0.last == "-" }) else { return false }
    return given.count >= 3 && given[0] == "*" && wanted.dropFirst().elementsEqual(given.dropFirst())
  }

  private static func constrain(_ name: ServerName, _ subtree: [UInt8]) {
    let isPermitted = NameConstraints(permitted: [subtree]).allows(name)
    let isExcluded = !NameConstraints(excluded: [subtree]).allows(name)
    guard let host = name.indication else {
      return precondition(isPermitted && !isExcluded, "a constraint of names is one of addresses")
    }
    let isPlain = subtree.first != UInt8(ascii: "*") && name.matches(.dns(subtree))
    precondition(isPermitted || !isPlain, "a name is not within itself")
    precondition(isExcluded || !isPermitted, "what is permitted is not excluded by the same")
    guard subtree.allSatisfy({ $0 < 0x80 }) else {
      return precondition(isExcluded && !isPermitted, "what is no name is held for one")
    }
    var base = String(decoding: subtree, as: UTF8.self).lowercased()
    if base.hasSuffix(".") { base.removeLast() }
    guard !base.isEmpty else { return precondition(isPermitted, "everything is not all") }
    let isWithoutItself = base.hasPrefix(".")
    let isBelow = (isWithoutItself ? host : "." + host).hasSuffix(isWithoutItself ? base : "." + base)
    if isWithoutItself { base.removeFirst() }
    let isName = (try? ServerName(base))?.indication == base
    precondition(isPermitted == (isName && isBelow), "another permission than that of RFC 5280")
    precondition(isExcluded || !isName || !isBelow, "another exclusion than that of RFC 5280")
  }
}
