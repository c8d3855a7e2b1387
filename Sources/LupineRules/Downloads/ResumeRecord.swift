/// What resume data says: enough to go on with a download, and to notice that it cannot be gone on with. Docs/ResumeData.md has the format.
///
/// It holds no credentials: the URL is without userinfo and fragment, and there is no place for fields of the request. Whoever can write
/// it can name a URL, a validator and a file of one folder, and nothing else.
package struct ResumeRecord: Hashable, Sendable {
  /// Bytes of the file's head that are hashed, if there are so many.
  package static let headSpan: Int64 = 64 * 1024
  /// Bytes before the offset that are hashed.
  package static let tailSpan: Int64 = 4 * 1024
  /// The largest record.
  package static let maximumSize = 64 * 1024

  /// Without userinfo and fragment.
  package let url: ParsedURL
  /// What gave the bytes, after redirects.
  package let source: ResumeSource
  package let validator: ResumeValidator
  /// Bytes of the file that count, at least one.
  package let offset: Int64
  /// The length of the whole, if the server told it; at least `offset`.
  package let total: Int64?
  /// SHA-256 of the first `headSpan` bytes, or of the first `offset`.
  package let headHash: [UInt8]
  /// SHA-256 of the `tailSpan` bytes before the offset, or of as many as there are.
  package let tailHash: [UInt8]
  /// The name of the partial file in its folder.
  package let partialName: String
  /// Seconds since 1970.
  package let createdAt: Int64

  /// Makes a record, or says what is wrong with its parts.
  package init(
    url: ParsedURL, source: ResumeSource, validator: ResumeValidator, offset: Int64, total: Int64?, headHash: [UInt8],
    tailHash: [UInt8], partialName: String, createdAt: Int64
  ) throws(ResumeRecordError) {
    guard offset > 0 else { throw .badOffset(offset) }
    if let total, total < offset { throw .badTotal(total) }
    guard headHash.count == ResumeHash.count, tailHash.count == ResumeHash.count else {
      throw .badLength(.headHash, headHash.count)
    }
    guard Self.isSafe(name: partialName) else { throw .badName }
    self.url = url.withoutUserinfo.replacingFragment(nil)
    self.source = source
    self.validator = validator
    self.offset = offset
    self.total = total
    self.headHash = headHash
    self.tailHash = tailHash
    self.partialName = partialName
    self.createdAt = createdAt
  }

  /// Whether this is of the resource that a URL names. Older records have the zone of an address in the origin only.
  package func isOf(_ other: ParsedURL) -> Bool {
    if url.identity == other.identity { return true }
    return url.host.zone == nil && source.origin == other.origin && url.requestString == other.requestString
  }

  /// Whether a name is one component that leads nowhere else, and says so to people too.
  package static func isSafe(name: String) -> Bool {
    let bytes = name.utf8
    return !bytes.isEmpty && bytes.count <= SafeFileName.maximumLength && name != "." && name != ".."
      && bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F && $0 != UInt8(ascii: "/") }
  }
}

/// Why bytes are no resume data.
package enum ResumeRecordError: Error, Hashable, Sendable {
  package enum Field: UInt8, Hashable, Sendable, CaseIterable {
    case url = 1
    case finalOrigin = 2
    case entityTag = 3
    case lastModified = 4
    case offset = 5
    case total = 6
    case headHash = 7
    case tailHash = 8
    case partialName = 9
    case createdAt = 10
    case source = 11
  }

  case tooLarge(count: Int, limit: Int)
  /// The first bytes are not those of resume data.
  case notResumeData
  case unsupportedVersion(UInt8)
  /// Only identity, 0, can be resumed.
  case unsupportedCoding(UInt8)
  case truncated(at: Int)
  /// The bytes have been changed since they were made.
  case badChecksum
  case unknownField(UInt8, at: Int)
  /// A field that is there twice, or before one that it follows.
  case misplacedField(Field, at: Int)
  case missingField(Field)
  case badLength(Field, Int)
  case notText(Field)
  /// No URL that can be fetched, or not in the form in which it is written.
  case badURL
  /// The URL has userinfo or a fragment.
  case urlHoldsSecrets
  case badOrigin
  /// The digest of where a redirect led is that of the URL itself, which is not written.
  case badSource
  /// Weak, or malformed, or both kinds at once.
  case badValidator
  case badOffset(Int64)
  case badTotal(Int64)
  /// No single safe path component.
  case badName
}
