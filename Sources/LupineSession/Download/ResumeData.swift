public import FoundationEssentials
internal import LupineIO
internal import LupineRules

/// What is needed to go on with a download that failed or was cancelled: `SessionError.resumeData`. Docs/ResumeData.md has the format.
///
/// It names the URL, the version (a strong validator, RFC 9110 8.8) and the partial file in the session's temporary folder, and holds no
/// credentials: a download that needed an `Authorization` field is resumed with a request that has one. It may be kept for as long as the
/// partial file is; without it, that file is of no use: see `discard(temporaryDirectory:)`.
public struct ResumeData: Sendable, Hashable {
  let record: ResumeRecord
  /// The data as bytes, to be kept anywhere. At most 64 KiB.
  public let bytes: [UInt8]

  /// Reads resume data. The bytes may come from anywhere: they are checked, and can name nothing but a file of the session's temporary
  /// folder, whose content is compared before anything is written to it.
  ///
  /// - Throws: `SessionError` with `.badResumeData`.
  public init(_ bytes: [UInt8]) throws(SessionError) {
    do throws(ResumeRecordError) {
      record = try ResumeRecord(decoding: bytes)
      self.bytes = bytes
    } catch {
      throw SessionError(
        .badResumeData, phase: .prepare, message: "these bytes are no resume data: \(error)", underlying: error)
    }
  }

  /// Reads resume data from Foundation's bytes; see `init(_:)`.
  public init(_ data: Data) throws(SessionError) {
    try self.init([UInt8](data))
  }

  init(_ record: ResumeRecord) throws(ResumeRecordError) {
    self.record = record
    bytes = try record.encoded()
  }

  /// The data for Foundation.
  public var data: Data { Data(bytes) }
  /// The URL that was asked for, without userinfo and fragment, with the zone of an address: that before redirects. Of a data task that became a download and was no plain GET at first,
  /// the one behind the redirect that made it one.
  public var urlString: String { record.url.identity }
  /// Bytes that are there.
  public var receivedBytes: Int64 { record.offset }
  /// The length of the whole; nil if the server did not tell it.
  public var expectedBytes: Int64? { record.total }
  /// When the download ended.
  public var createdAt: Date { Date(timeIntervalSince1970: Double(record.createdAt)) }

  /// Whether a request asks for what this is a part of.
  package func isOf(_ request: Request) -> Bool { record.isOf(request.parsedURL) }

  /// Whether what was to be gone on with is another resource's since somebody changed the request on its way. A request that names another one from the
  /// beginning is a mistake, and no reason to leave it behind.
  package func isLeftBehind(by request: Request, madeOf original: Request) -> Bool {
    !isOf(request) && request.parsedURL.identity != original.parsedURL.identity
  }

  /// Whether both name the same beginning of the same version, one perhaps more of it.
  package func hasFile(of other: ResumeData) -> Bool {
    record.partialName == other.record.partialName && record.validator == other.record.validator
      && record.total == other.record.total
  }

  /// Removes the partial file, so that nothing is left of the download. Does nothing if it is gone already. Blocks for as long as the disk does.
  ///
  /// - Parameter temporaryDirectory: `SessionConfiguration.temporaryDirectory` of the session that made the data.
  public func discard(temporaryDirectory: String? = nil) {
    PartialFile.reopen(record, in: PartialPlace(parent: temporaryDirectory))?.remove()
  }
}
