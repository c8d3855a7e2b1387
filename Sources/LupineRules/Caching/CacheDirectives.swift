/// `Cache-Control` (RFC 9111 section 5.2, RFC 5861), of a request or a response.
///
/// Values may be tokens or quoted strings. What cannot be read counts against reuse: an age that is no number, or has blanks
/// beside its `=`, is 0, of several ages the smallest counts, a directive that names fields (`no-cache="Set-Cookie"`) is taken as if it named
/// all. Unknown directives are skipped.
package struct CacheDirectives: Hashable, Sendable {
  /// How stale a response the client takes.
  package enum MaximumStaleness: Hashable, Sendable {
    case any
    case seconds(Int64)
  }

  package var noStore = false
  package var noCache = false
  package var mustRevalidate = false
  package var mustUnderstand = false
  package var isPublic = false
  package var isPrivate = false
  package var onlyIfCached = false
  /// `s-maxage` is there; its value is for shared caches.
  package var hasSharedAge = false
  package var maximumAge: Int64?
  package var maximumStaleness: MaximumStaleness?
  package var minimumFreshness: Int64?
  package var staleWhileRevalidate: Int64?
  package var staleIfError: Int64?

  /// No directives.
  package init() {}

  /// What a delta that is too large to count is read as (RFC 9111 section 1.2.2).
  static let endless: Int64 = 2_147_483_648

  /// Reads the values of all `Cache-Control` fields of a message.
  package init(_ values: some Sequence<String>) {
    for value in values {
      for element in Self.elements(Array(value.utf8)) { read(element) }
    }
  }

  /// Splits at commas outside of quoted strings. A quote that is never closed hides nothing: it counts as any other byte.
  private static func elements(_ bytes: [UInt8]) -> [ArraySlice<UInt8>] {
    var result: [ArraySlice<UInt8>] = []
    var start = 0
    var index = 0
    // Once a quote is not closed no later one is looked for: every byte is looked at twice at most.
    var hasQuotes = true
    while index < bytes.count {
      if bytes[index] == UInt8(ascii: ",") {
        result.append(bytes[start..<index])
        start = index + 1
      } else if hasQuotes, bytes[index] == UInt8(ascii: "\"") {
        if let end = closingQuote(bytes, after: index) { index = end } else { hasQuotes = false }
      }
      index += 1
    }
    result.append(bytes[start...])
    return result
  }

  private static func closingQuote(_ bytes: [UInt8], after quote: Int) -> Int? {
    var index = quote + 1
    while index < bytes.count {
      if bytes[index] == UInt8(ascii: "\"") { return index }
      index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1
    }
    return nil
  }

  private mutating func read(_ element: ArraySlice<UInt8>) {
    let parts = element.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
    guard let name = Self.trimmed(parts[0]).smallToken else { return }
    let value = Self.value(parts)
    switch name {
    case "no-store": noStore = true
    case "no-cache": noCache = true
    case "must-revalidate": mustRevalidate = true
    case "must-understand": mustUnderstand = true
    case "public": isPublic = true
    case "private": isPrivate = true
    case "only-if-cached": onlyIfCached = true
    case "s-maxage": hasSharedAge = true
    case "max-age": maximumAge = min(maximumAge ?? .max, Self.delta(value) ?? 0)
    case "min-fresh": minimumFreshness = max(minimumFreshness ?? 0, Self.delta(value) ?? Self.endless)
    case "max-stale": read(staleness: value)
    case "stale-while-revalidate": staleWhileRevalidate = min(staleWhileRevalidate ?? .max, Self.delta(value) ?? 0)
    case "stale-if-error": staleIfError = min(staleIfError ?? .max, Self.delta(value) ?? 0)
    default: break
    }
  }

  private mutating func read(staleness value: [UInt8]?) {
    guard let value else {
      if maximumStaleness == nil { maximumStaleness = .any }
      return
    }
    let seconds = Self.delta(value) ?? 0
    if case .seconds(let before)? = maximumStaleness {
      maximumStaleness = .seconds(min(before, seconds))
    } else {
      maximumStaleness = .seconds(seconds)
    }
  }

  /// Digits only; a number that is too large is a very large one.
  private static func delta(_ value: [UInt8]?) -> Int64? {
    guard let value, !value.isEmpty, value.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return min(FieldScanner.number(value) ?? endless, endless)
  }

  private static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    var bytes = bytes
    while let first = bytes.first, FieldScanner.isBlank(first) { bytes.removeFirst() }
    while let last = bytes.last, FieldScanner.isBlank(last) { bytes.removeLast() }
    return bytes
  }

  /// What stands behind `=`; empty if blanks stand beside it, which RFC 9111 section 5.2 does not allow.
  private static func value(_ parts: [ArraySlice<UInt8>]) -> [UInt8]? {
    guard parts.count > 1 else { return nil }
    let neighbours = [parts[0].last, parts[1].first].compactMap { $0 }
    return neighbours.contains(where: FieldScanner.isBlank) ? [] : unquoted(trimmed(parts[1]))
  }

  private static func unquoted(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
    guard bytes.count >= 2, bytes.first == UInt8(ascii: "\""), bytes.last == UInt8(ascii: "\"") else {
      return Array(bytes)
    }
    var result: [UInt8] = []
    var rest = bytes.dropFirst().dropLast()
    while let byte = rest.popFirst() {
      result.append(byte == UInt8(ascii: "\\") ? rest.popFirst() ?? byte : byte)
    }
    return result
  }
}
