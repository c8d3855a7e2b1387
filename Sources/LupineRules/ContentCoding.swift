/// A content coding that can be decoded (RFC 9110 section 8.4.1). `identity` is no coding: it disappears when a list is read.
package enum ContentCoding: UInt8, Hashable, Sendable {
  /// `gzip`, also spelled `x-gzip` (RFC 1952).
  case gzip
  /// `deflate`: zlib (RFC 1950), or raw deflate (RFC 1951), which some servers send under the same name.
  case deflate

  package var name: String { self == .gzip ? "gzip" : "deflate" }
}

/// Why a `Content-Encoding` cannot be decoded.
package enum ContentCodingRefusal: Error, Hashable, Sendable {
  /// More codings than a chain may have (curl CVE-2022-32206, urllib3 CVE-2025-66418).
  case tooMany(limit: Int)
  /// A coding that is not known here, or something that is no token and so names none; the body is passed as it came. The name is the peer's text.
  case unknown(String)
}

/// The lists of `Content-Encoding` and `Accept-Encoding`.
package enum ContentCodings {
  /// Codings in a chain, `identity` not counted, unless somebody says otherwise.
  package static let maximumCount = 5

  /// What `Accept-Encoding` offers when the caller says nothing.
  package static let acceptEncoding = "gzip, deflate"

  /// The codings of every `Content-Encoding` field in the order in which they were applied; a decoder undoes the last one first.
  ///
  /// Empty list elements are ignored (RFC 9110 section 5.6.1.2), and so is a weight: servers that echo what they chose of `Accept-Encoding` send
  /// `gzip;q=1`.
  package static func parse(
    _ values: some Sequence<String>, atMost limit: Int = maximumCount
  ) throws(ContentCodingRefusal) -> [ContentCoding] {
    var codings: [ContentCoding] = []
    for value in values {
      for element in value.utf8.split(separator: UInt8(ascii: ",")) {
        let token = FieldScanner.trimmed(element)
        guard !token.isEmpty, let coding = try coding(token) else { continue }
        guard codings.count < limit else { throw ContentCodingRefusal.tooMany(limit: limit) }
        codings.append(coding)
      }
    }
    return codings
  }

  private static func coding(_ element: Substring.UTF8View) throws(ContentCodingRefusal) -> ContentCoding? {
    let token = FieldScanner.trimmed(element.prefix { $0 != UInt8(ascii: ";") })
    switch token.smallToken {
    case "gzip", "x-gzip": return .gzip
    case "deflate": return .deflate
    case "identity": return nil
    default: throw ContentCodingRefusal.unknown(String(decoding: element, as: UTF8.self))
    }
  }
}
