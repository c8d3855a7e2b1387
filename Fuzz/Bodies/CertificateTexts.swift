internal import LupineSession
internal import LupineTLS

/// What `CertificatesFuzz` demands of texts in PEM.
enum CertificateTexts {
  private static let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
  private static let key = Array("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw\n-----END PRIVATE KEY-----\n".utf8)

  static func check(_ text: [UInt8], isRepeated: Bool) {
    let blocks = Self.blocks(of: text)
    let found = PEMReader.certificates(in: text) ?? []
    precondition(found.count == blocks.count, "another number of certificates")
    for (certificate, block) in zip(found, blocks) {
      guard let block else {
        precondition(certificate.isEmpty, "a certificate without an end")
        continue
      }
      if let expected = decoded(block) { precondition(certificate == expected, "another certificate") }
      guard !certificate.isEmpty else { continue }
      precondition(decoded(block, isStrict: false) == certificate, "a certificate of other bytes")
    }
    let plain = text.starts(with: mark) ? Array(text[3...]) : text
    checkSurroundings(text, plain, found)
    if isRepeated {
      let many = Array(repeatElement(plain + [0x0A], count: 1_025).joined())
      precondition(blocks.isEmpty || read(many) == nil, "more certificates than the limit")
    } else {
      let areAll = !found.isEmpty && found.allSatisfy { publicKeyDigest(ofCertificate: $0) != nil }
      precondition(read(text) == (areAll && found.count <= 1_024 ? found : nil), "a text that is taken by halves")
    }
  }

  private static func read(_ text: [UInt8]) -> [[UInt8]]? {
    do throws(SessionError) {
      return try TLSConfiguration.certificates(inPEM: text)
    } catch {
      precondition(error.code == .badRequest && !error.message.isEmpty, "another error")
      return nil
    }
  }

  /// - Parameter plain: the text without the mark of its byte order.
  private static func checkSurroundings(_ text: [UInt8], _ plain: [UInt8], _ found: [[UInt8]]) {
    let returns: [UInt8] = text.flatMap { byte -> [UInt8] in byte == 0x0A ? [0x0D, 0x0A] : [byte] }
    let padded: [UInt8] = text.flatMap { byte -> [UInt8] in byte == 0x0A ? [0x20, 0x09, 0x0A] : [byte] }
    let isMarked = plain.count < text.count
    for other in [returns, padded, key + plain, text + [0x0A] + key, isMarked ? text : mark + text] {
      precondition((PEMReader.certificates(in: other) ?? []) == found, "what stands around makes other certificates")
    }
  }

  /// What stands in each block of a certificate, its lines put together; nil for one that does not end.
  private static func blocks(of text: [UInt8]) -> [[UInt8]?] {
    var blocks: [[UInt8]?] = []
    var open: [UInt8]?
    var line: [UInt8] = []
    for byte in (text.starts(with: mark) ? Array(text[3...]) : text) + [0x0A] {
      guard byte == 0x0A || byte == 0x0D else {
        // Blanks before a line are none of it.
        if !line.isEmpty || byte != 0x20 && byte != 0x09 { line.append(byte) }
        continue
      }
      while line.last == 0x20 || line.last == 0x09 { line.removeLast() }
      let words = line.split(separator: 0x20, omittingEmptySubsequences: false).map { Array($0) }
      let label = words.dropFirst().map { String(decoding: $0, as: UTF8.self) }
      let isLabel = label == ["CERTIFICATE-----"] || label == ["X509", "CERTIFICATE-----"]
      switch String(decoding: words.first ?? [], as: UTF8.self) {
      case "-----BEGIN" where isLabel:
        if open != nil { blocks.append(nil) }
        open = []
      case "-----END" where isLabel:
        if let content = open { blocks.append(content) }
        open = nil
      default: open?.append(contentsOf: line)
      }
      line = []
    }
    if open != nil { blocks.append(nil) }
    return blocks
  }

  /// RFC 4648 section 4; nil: it is none, or one that readers disagree about.
  ///
  /// - Parameter isStrict: whether bits that nobody reads have to be zero, and the padding as long as it should.
  private static func decoded(_ text: [UInt8], isStrict: Bool = true) -> [UInt8]? {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    let padding = text.reversed().prefix { $0 == UInt8(ascii: "=") }.count
    let digits = text.dropLast(padding)
    guard !isStrict || padding <= 2 && text.count % 4 == 0 else { return nil }
    var result: [UInt8] = []
    var (bits, count) = (0, 0)
    for digit in digits {
      guard let value = alphabet.firstIndex(of: digit) else { return nil }
      bits = bits << 6 | value
      count += 6
      guard count >= 8 else { continue }
      count -= 8
      result.append(UInt8(bits >> count & 0xFF))
      bits &= 1 << count - 1
    }
    return bits == 0 || !isStrict ? result : nil
  }
}
