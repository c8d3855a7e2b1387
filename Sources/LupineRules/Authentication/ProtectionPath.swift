/// For which paths credentials may be sent without being asked for.
package enum ProtectionPath {
  /// RFC 7617 section 2.2: everything at or below the last symbolic element of the path that was asked for.
  package static func basic(_ path: String) -> String {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "/" }
    return String(path[...slash])
  }

  /// RFC 7616 section 3.3, `domain`: those of its URLs that are of the same origin, as targets; the whole origin if there is no `domain`.
  ///
  /// A server cannot have its nonce, or anything else, sent to another origin: such URLs are left out.
  package static func digest(_ domain: [String], base: ParsedURL) -> [String] {
    guard !domain.isEmpty else { return ["/"] }
    return domain.compactMap { text in
      guard let url = try? URLReader.resolve(text, against: base), OriginRule.isSame(url, base) else { return nil }
      return url.target
    }
  }

  /// Whether a target is within a prefix. A path with dot segments, encoded ones too, is within none but `/`: what it leads to is the
  /// server's secret.
  package static func covers(_ prefix: String, _ target: String) -> Bool {
    var climbs: Bool?
    return covers(prefix, target, &climbs)
  }

  /// The same for one of several prefixes.
  ///
  /// - Parameter climbs: whether the target has such segments; nil: nobody has looked yet.
  static func covers(_ prefix: String, _ target: String, _ climbs: inout Bool?) -> Bool {
    guard target.utf8.starts(with: prefix.utf8) else { return false }
    if prefix == "/" { return true }
    let known = climbs ?? Self.climbs(target)
    climbs = known
    return !known
  }

  private static func climbs(_ target: String) -> Bool {
    let path = target.utf8.prefix { $0 != UInt8(ascii: "?") }
    return PercentCoding.decodedBytes(path)
      .split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: true)
      .contains { $0.elementsEqual("..".utf8) }
  }
}
