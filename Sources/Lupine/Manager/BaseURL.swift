internal import LupineRules
internal import LupineSession

/// The URL that an `HTTPSessionManager`'s paths are relative to, read and resolved by the reader that decides for requests too.
struct BaseURL: Sendable {
  private let url: ParsedURL

  /// - Throws: `.badURL`, also for one without a scheme, which AFNetworking takes and then fails every request with.
  init(_ text: String) throws(SessionError) {
    var parsed = try Request(text).parsedURL
    if !parsed.path.hasSuffix("/") {
      // The last segment alone, and marked as a path: "//x/" would name a host, and "a:b/" a scheme.
      let last = parsed.path.split(separator: "/", omittingEmptySubsequences: false).last ?? ""
      parsed = try Self.resolve("./" + last + "/" + (parsed.query.map { "?" + $0 } ?? ""), parsed)
    }
    url = parsed
  }

  /// Its text, with a path that ends in a slash, so that a relative path is added to it and replaces nothing. A path that is empty stays so.
  var text: String { Self.text(of: url) }

  /// Its text for messages and archives: without userinfo, which may hold a password.
  var publicText: String { Self.text(of: url, withUserinfo: false) }

  /// The host, as policies name it.
  var host: String { url.serverName }

  /// Whether it is https.
  var isSecure: Bool { url.scheme == .https }

  /// The absolute URL of a reference (RFC 3986 section 5.2), userinfo of the base included.
  func resolve(_ reference: String) throws(SessionError) -> String {
    Self.text(of: try resolved(reference))
  }

  /// What `resolve(_:)` gives, read.
  func resolved(_ reference: String) throws(SessionError) -> ParsedURL { try Self.resolve(reference, url) }

  private static func resolve(_ reference: String, _ base: ParsedURL) throws(SessionError) -> ParsedURL {
    do throws(URLRefusal) {
      return try URLReader.resolve(reference, against: base)
    } catch {
      throw SessionError(
        .badURL, phase: .prepare, message: "the URL cannot be fetched: \(error)", underlying: error)
    }
  }

  private static func text(of url: ParsedURL, withUserinfo: Bool = true) -> String {
    let userinfo = withUserinfo ? url.userinfo.map { $0 + "@" } ?? "" : ""
    let fragment = url.fragment.map { "#" + $0 } ?? ""
    return "\(url.scheme.text)://\(userinfo)\(url.origin.authorityWithZone)\(url.target)\(fragment)"
  }
}
