import LupineBase

/// Which fields must not be trailers, and what happens to them (RFC 9110 section 6.5.1, RFC 9112 section 7.1.2).
///
/// Two groups. Fields that frame the message are **refused**: only an attack sends them. Fields that tell the recipient how to read
/// or to route the message, or that carry credentials, state or control data, are **dropped**: by the time they come it is too late
/// to act upon them, and merging them into the head is how they do harm. All others are handed out.
public enum ForbiddenTrailers {
  /// A trailer field of this name is an error.
  public static let refused = ["content-length", "transfer-encoding"]

  /// A trailer field of this name is left out.
  public static let dropped = [
    "age", "authorization", "cache-control", "connection", "content-encoding", "content-range", "content-type",
    "cookie",
    "date", "expect", "expires", "host", "keep-alive", "location", "max-forwards", "pragma", "proxy-authenticate",
    "proxy-authorization", "proxy-connection", "range", "retry-after", "set-cookie", "te", "trailer", "upgrade", "vary",
    "www-authenticate",
  ]
}

/// Reads a trailer section, and sorts out what must not be in it.
struct TrailerReader: Sendable {
  private var buffer = HeadBuffer()
  private var scanner: FieldScanner
  private let limit: Int
  /// Bytes of the response before the section.
  private let base: Int
  private(set) var dropped = 0

  /// Whether a leniency let a line pass that others read differently.
  var hasAmbiguousFraming: Bool { scanner.spoiled != nil }

  init(limits: WireLimits, leniency: WireLeniency, base: Int) {
    limit = limits.trailers
    self.base = base
    scanner = FieldScanner(
      lineLimit: limits.fieldLine, fieldLimit: limits.trailerFields, section: .trailers, leniency: leniency)
  }

  /// Takes bytes from `offset` on. Returns the section once it is complete; nil means that everything was taken.
  mutating func next(_ input: Span<UInt8>, _ offset: inout Int) throws(WireError) -> FieldSection? {
    while true {
      offset += buffer.fill(input, offset, limit: limit - buffer.filled)
      do throws(WireError) {
        if try buffer.scan(&scanner) {
          offset -= buffer.filled - scanner.position
          buffer.filled = scanner.position
          return try sort(buffer.section)
        }
      } catch {
        throw WireError(error.reason, at: base + error.offset)
      }
      if offset == input.count { return nil }
      if buffer.filled >= limit { throw WireError(.trailersTooLarge(limit: limit), at: base + limit) }
    }
  }

  private mutating func sort(_ section: FieldSection) throws(WireError) -> FieldSection {
    var kept = 0
    var storage = section.storage
    let start = section.indexStart
    for index in 0..<section.count {
      let entry = section.entry(at: index)
      let name = section.name(at: index).lowercased()
      if ForbiddenTrailers.refused.contains(name) {
        throw WireError(.forbiddenTrailerField, at: Int(entry.nameStart))
      }
      if ForbiddenTrailers.dropped.contains(name) {
        dropped += 1
      } else {
        Self.put(entry, kept, &storage, start)
        kept += 1
      }
    }
    var bytes = storage.mutableSpan
    IndexHeader.write(&bytes, at: start, count: kept)
    return FieldSection(storage: storage, indexStart: start)
  }

  private static func put(_ entry: FieldEntry, _ index: Int, _ storage: inout [UInt8], _ start: Int) {
    var bytes = storage.mutableSpan
    bytes.store(entry, at: IndexHeader.place(index, start))
  }
}
