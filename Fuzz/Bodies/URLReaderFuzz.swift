internal import LupineRules

/// Oracle: whatever is read has a host of strict grammar and a target that can stand in a request line, and is read back from its text as itself;
/// no reference traps, and resolving is idempotent.
///
/// The first line of the input is a URL, the rest a reference.
package enum URLReaderFuzz {
  package static func run(bytes: [UInt8]) {
    let lines = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 1, omittingEmptySubsequences: false)
    guard let first = lines.first else { return }
    let base: ParsedURL
    do {
      base = try URLReader.read(first.span)
    } catch {
      precondition(
        error.description.unicodeScalars.allSatisfy { !InvisibleText.isUnsafe($0) }, "a fault that cannot be shown")
      return
    }
    check(base)
    guard lines.count == 2, let reference = lines.last, let url = try? URLReader.resolve(reference.span, against: base)
    else { return }
    check(url)
    guard let again = try? URLReader.resolve(url.absoluteString, against: base) else {
      precondition(url.absoluteString.utf8.count > URLReader.maximumLength, "a URL is not a reference")
      return
    }
    guard let last = try? URLReader.resolve(again.absoluteString, against: url) else {
      preconditionFailure("a resolved URL is not a reference")
    }
    precondition(again == last, "resolving is not idempotent")
    for segment in again.path.split(separator: "/") {
      precondition(segment != "." && segment != "..", "a dot segment was left")
    }
  }

  /// Checks a URL that was accepted, by code that shares nothing with the reader.
  static func check(_ url: ParsedURL) {
    precondition(url.target.utf8.first == UInt8(ascii: "/"), "the target does not begin with a slash")
    precondition(url.target.utf8.allSatisfy { (0x21...0x7E).contains($0) }, "the target has bytes that end it")
    precondition(!url.target.contains("#"), "the target has a fragment")
    precondition(!url.authority.contains { "@%/?#\\ ".contains($0) }, "the authority has more than host and port")
    precondition(url.port > 0 && url.explicitPort ?? url.port == url.port)
    precondition(
      !url.serverName.utf8.isEmpty && url.serverName.utf8.last != UInt8(ascii: "."), "a dot at the end of a name")
    precondition(url.host.zone.map { url.host.connectionText == "\(url.host.text)%\($0)" } ?? true)
    precondition(url.credentials == nil || url.userinfo != nil)
    precondition(url.credentials.map { $0.password == nil || url.userinfo?.contains(":") == true } ?? true)
    precondition(url.target == url.path + (url.query.map { "?\($0)" } ?? ""), "path and query are not the target")
    checkHost(url.host)
    let text = url.absoluteString
    precondition(text.utf8.allSatisfy { (0x21...0x7E).contains($0) }, "the text is not visible ASCII")
    guard let again = try? URLReader.read(text) else {
      // Percent-encoding may have made it longer than what is read.
      precondition(text.utf8.count > URLReader.maximumLength, "a URL cannot be read back")
      return
    }
    precondition(again.target == url.target && again.fragment == url.fragment && again.authority == url.authority)
    precondition(again.absoluteString == text, "a URL reads back as another")
    precondition(url.host.zone != nil || again.origin == url.origin, "a URL reads back with another origin")
  }

  private static func checkHost(_ host: URLHost) {
    let text = host.text
    switch host.kind {
    case .name:
      precondition(text.utf8.count <= 254)
      var labels = text.split(separator: ".", omittingEmptySubsequences: false)
      if labels.last?.isEmpty == true { labels.removeLast() }
      precondition(!labels.isEmpty)
      for label in labels {
        precondition((1...63).contains(label.utf8.count), "a label is empty or too long")
        precondition(label.utf8.allSatisfy(isNameByte), "a label has bytes of no name")
      }
      precondition(labels.last.map { !$0.utf8.allSatisfy(isDigit) } ?? false, "a name looks like an address")
    case .ipv4:
      let octets = text.split(separator: ".", omittingEmptySubsequences: false)
      precondition(octets.count == 4 && octets.allSatisfy { octet in UInt8(octet).map { "\($0)" == octet } ?? false })
    case .ipv6:
      precondition(text.utf8.allSatisfy { isNameByte($0) || $0 == UInt8(ascii: ":") } && text.contains(":"))
    }
    guard let again = try? HostReader.read(text) else { preconditionFailure("a host cannot be read back") }
    precondition(again.kind == host.kind && again.text == text, "a host reads back as another")
  }

  private static func isDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }

  private static func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
      UInt8(ascii: "_"), UInt8(ascii: "."):
      true
    default: false
    }
  }
}
