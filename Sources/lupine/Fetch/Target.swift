internal import LupineSession

/// What the arguments of the main form say: method, URL and items.
struct Target: Sendable, Equatable {
  var method: String?
  var url: String
  var items: [String]

  private static let methods: Set<String> = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY",
  ]

  /// `[METHOD] URL [ITEM …]`. The first of several arguments is a method if it is a known one in any case, or a word in capitals.
  init(_ arguments: [String]) throws(CommandFailure) {
    guard let first = arguments.first else {
      throw .misuse("which URL? Try `lupine https://example.com/`, `lupine demo`, or `lupine --help`.")
    }
    if arguments.count > 1, Self.isMethod(first) {
      method = Self.methods.contains(first.uppercased()) ? first.uppercased() : first
      url = Self.expanded(arguments[1])
      items = Array(arguments.dropFirst(2))
    } else {
      url = Self.expanded(first)
      items = Array(arguments.dropFirst())
    }
  }

  /// Why the URL was refused, where it is none, and one stands behind it: as after an option that takes a value elsewhere, and none here.
  func misplacedURL(_ error: SessionError) -> CommandFailure? {
    guard items.contains(where: Self.hasScheme) else { return nil }
    return .misuse(
      """
      \(error.message)
              The URL comes first: lupine URL [ITEM ...] [options]; see --help.
      """)
  }

  private static func isMethod(_ text: String) -> Bool {
    if methods.contains(text.uppercased()) { return true }
    return !text.isEmpty && text.allSatisfy { $0.isASCII && ($0.isUppercase || $0 == "-" || $0 == "_") }
  }

  /// `:8080/path`, `:/path` and `:` are on localhost; without a scheme it is http.
  static func expanded(_ text: String) -> String {
    if hasScheme(text) { return text }
    if text.hasPrefix("//") { return "http:" + text }
    guard text.hasPrefix(":"), !text.hasPrefix("::") else { return "http://" + text }
    let rest = text.dropFirst()
    let hasPort = rest.first.map { $0.isASCII && $0.isNumber } ?? false
    return "http://localhost" + (hasPort ? ":" : "") + rest
  }

  private static func hasScheme(_ text: String) -> Bool {
    guard let mark = text.range(of: "://") else { return false }
    let scheme = text[..<mark.lowerBound]
    return scheme.first?.isLetter == true
      && scheme.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "+-.".contains($0)) }
  }

  /// Adds query parameters, percent-encoded, behind those that are there.
  static func adding(_ query: [(name: String, value: String)], to url: String) -> String {
    guard !query.isEmpty else { return url }
    // By bytes: with a mark behind it a sign is another character.
    let end = url.utf8.firstIndex(of: UInt8(ascii: "#")) ?? url.endIndex
    let base = url.utf8[..<end]
    let text = query.map { Percent.encoded($0.name) + "=" + Percent.encoded($0.value) }.joined(separator: "&")
    let mark = UInt8(ascii: "?")
    let separator = !base.contains(mark) ? "?" : base.last == mark || base.last == UInt8(ascii: "&") ? "" : "&"
    return "\(url[..<end])\(separator)\(text)\(url[end...])"
  }
}

/// Percent-encoding (RFC 3986 2.1).
enum Percent {
  /// Everything but the unreserved characters is encoded. `plusForSpace` is the form encoding of HTML.
  static func encoded(_ text: String, plusForSpace: Bool = false) -> String {
    var result: [UInt8] = []
    let digits = Array("0123456789ABCDEF".utf8)
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"):
        result.append(byte)
      case 0x20 where plusForSpace: result.append(UInt8(ascii: "+"))
      default: result += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
      }
    }
    return String(decoding: result, as: UTF8.self)
  }

  /// Malformed escapes stay as they are.
  static func decoded(_ text: some StringProtocol) -> [UInt8] {
    let source = Array(text.utf8)
    var result: [UInt8] = []
    var index = 0
    while index < source.count {
      if source[index] == UInt8(ascii: "%"), index + 2 < source.count,
        let byte = UInt8(String(decoding: source[(index + 1)...(index + 2)], as: UTF8.self), radix: 16)
      {
        result.append(byte)
        index += 3
      } else {
        result.append(source[index])
        index += 1
      }
    }
    return result
  }
}
