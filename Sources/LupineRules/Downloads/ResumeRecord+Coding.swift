extension ResumeRecord {
  private typealias Field = ResumeRecordError.Field

  private static let magic = Array("lupineRD".utf8)
  private static let version: UInt8 = 1
  private static let identity: UInt8 = 0
  private static let checksumSize = 8

  // MARK: Writing

  /// The record as bytes: the same record always gives the same ones.
  ///
  /// - Throws: `.tooLarge` for a URL of exceptional length.
  package func encoded() throws(ResumeRecordError) -> [UInt8] {
    var bytes = Self.magic
    bytes.append(Self.version)
    bytes.append(Self.identity)
    try Self.append(.url, Array(url.identity.utf8), to: &bytes)
    try Self.append(.finalOrigin, Array(source.origin.serializedWithZone.utf8), to: &bytes)
    switch validator {
    case .entityTag(let text): try Self.append(.entityTag, Array(text.utf8), to: &bytes)
    case .lastModified(let text): try Self.append(.lastModified, Array(text.utf8), to: &bytes)
    }
    try Self.append(.offset, Self.number(offset), to: &bytes)
    if let total { try Self.append(.total, Self.number(total), to: &bytes) }
    try Self.append(.headHash, headHash, to: &bytes)
    try Self.append(.tailHash, tailHash, to: &bytes)
    try Self.append(.partialName, Array(partialName.utf8), to: &bytes)
    try Self.append(.createdAt, Self.number(createdAt), to: &bytes)
    if source.digest != ResumeSource(url, for: validator).digest { try Self.append(.source, source.digest, to: &bytes) }
    bytes += Self.checksum(bytes.span)
    guard bytes.count <= Self.maximumSize else { throw .tooLarge(count: bytes.count, limit: Self.maximumSize) }
    return bytes
  }

  private static func append(_ field: Field, _ value: [UInt8], to bytes: inout [UInt8]) throws(ResumeRecordError) {
    guard let count = UInt16(exactly: value.count) else { throw .tooLarge(count: value.count, limit: maximumSize) }
    bytes.append(field.rawValue)
    bytes.append(UInt8(truncatingIfNeeded: count >> 8))
    bytes.append(UInt8(truncatingIfNeeded: count))
    bytes += value
  }

  private static func number(_ value: Int64) -> [UInt8] {
    let bits = UInt64(bitPattern: value)
    return stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: bits >> UInt64($0)) }
  }

  private static func checksum(_ bytes: Span<UInt8>) -> ArraySlice<UInt8> {
    ResumeHash.digest(bytes).prefix(checksumSize)
  }

  // MARK: Reading

  /// Reads bytes that may come from anywhere.
  package init(decoding bytes: [UInt8]) throws(ResumeRecordError) {
    let fields = try Self.fields(of: bytes)
    func required(_ field: Field) throws(ResumeRecordError) -> ArraySlice<UInt8> {
      guard let value = fields[field] else { throw .missingField(field) }
      return value
    }
    func text(_ field: Field) throws(ResumeRecordError) -> String {
      guard let text = String(validating: try required(field), as: UTF8.self) else { throw .notText(field) }
      return text
    }
    func number(_ field: Field) throws(ResumeRecordError) -> Int64 {
      let value = try required(field)
      guard value.count == 8 else { throw .badLength(field, value.count) }
      return Int64(bitPattern: value.reduce(0) { $0 << 8 | UInt64($1) })
    }
    func hash(_ field: Field) throws(ResumeRecordError) -> [UInt8] {
      let value = try required(field)
      guard value.count == ResumeHash.count else { throw .badLength(field, value.count) }
      return Array(value)
    }
    let url = try Self.url(try text(.url))
    let origin = try Self.origin(try text(.finalOrigin))
    let validator = try Self.validator(
      tag: fields[.entityTag] == nil ? nil : try text(.entityTag),
      date: fields[.lastModified] == nil ? nil : try text(.lastModified))
    let own = ResumeSource(url, for: validator).digest
    let digest = fields[.source] == nil ? own : try hash(.source)
    guard fields[.source] == nil || digest != own else { throw .badSource }
    try self.init(
      url: url, source: ResumeSource(origin: origin, digest: digest), validator: validator,
      offset: try number(.offset), total: fields[.total] == nil ? nil : try number(.total),
      headHash: try hash(.headHash), tailHash: try hash(.tailHash), partialName: try text(.partialName),
      createdAt: try number(.createdAt))
  }

  /// Takes the frame apart: what it must begin and end with, and fields in ascending order, none twice.
  private static func fields(of bytes: [UInt8]) throws(ResumeRecordError) -> [Field: ArraySlice<UInt8>] {
    guard bytes.count <= maximumSize else { throw .tooLarge(count: bytes.count, limit: maximumSize) }
    guard bytes.starts(with: magic) else { throw .notResumeData }
    let header = magic.count + 2
    guard bytes.count >= header + checksumSize else { throw .truncated(at: bytes.count) }
    guard bytes[magic.count] == version else { throw .unsupportedVersion(bytes[magic.count]) }
    guard bytes[magic.count + 1] == identity else { throw .unsupportedCoding(bytes[magic.count + 1]) }
    let end = bytes.count - checksumSize
    guard bytes[end...].elementsEqual(checksum(bytes.span.extracting(0..<end))) else { throw .badChecksum }

    var fields: [Field: ArraySlice<UInt8>] = [:]
    var last: UInt8 = 0
    var index = header
    while index < end {
      guard let field = Field(rawValue: bytes[index]) else { throw .unknownField(bytes[index], at: index) }
      guard field.rawValue > last else { throw .misplacedField(field, at: index) }
      guard end - index >= 3 else { throw .truncated(at: end) }
      let start = index + 3
      let next = start + (Int(bytes[index + 1]) << 8 | Int(bytes[index + 2]))
      guard next <= end else { throw .truncated(at: end) }
      fields[field] = bytes[start..<next]
      last = field.rawValue
      index = next
    }
    return fields
  }

  private static func url(_ text: String) throws(ResumeRecordError) -> ParsedURL {
    guard let url = try? URLReader.read(text) else { throw .badURL }
    guard url.userinfo == nil, url.fragment == nil else { throw .urlHoldsSecrets }
    // One form only, so that nobody can hide in another one.
    guard url.identity == text else { throw .badURL }
    return url
  }

  private static func origin(_ text: String) throws(ResumeRecordError) -> Origin {
    guard let url = try? URLReader.read(text + "/"), url.userinfo == nil, url.origin.serializedWithZone == text else {
      throw .badOrigin
    }
    return url.origin
  }

  private static func validator(tag: String?, date: String?) throws(ResumeRecordError) -> ResumeValidator {
    let validator: ResumeValidator? =
      switch (tag, date) {
      case (let tag?, nil): ResumeValidator(recordedTag: tag)
      case (nil, let date?): ResumeValidator(recordedDate: date)
      default: nil
      }
    guard let validator else { throw .badValidator }
    return validator
  }
}
