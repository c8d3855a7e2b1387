public import FoundationEssentials
public import HTTPTypes
internal import LupineBase
package import LupineRules
public import LupineWire

/// A response: status, fields, and how it came.
public struct Response: Sendable {
  /// Everything, behind one reference: a response passes through many hands, and most look at little of it.
  ///
  /// `@unchecked`: what its end brings is written by whoever holds the only reference, as in every type that copies when it is written.
  private final class Storage: @unchecked Sendable {
    let head: ResponseHead
    let parsedURL: ParsedURL
    let requestHead: [UInt8]
    let past: Past?
    /// What is known once the body has ended.
    var trailers = FieldSection()
    var metrics = TaskMetrics()

    init(head: ResponseHead, url: ParsedURL, requestHead: [UInt8], past: Past?) {
      self.head = head
      parsedURL = url
      self.requestHead = requestHead
      self.past = past
    }
  }

  /// What came before; most responses have none.
  private final class Past: Sendable {
    let informational: [ResponseHead]
    let redirects: [Redirect]
    let sensitiveFields: Set<HTTPField.Name>

    init(_ informational: [ResponseHead], _ redirects: [Redirect], _ sensitiveFields: Set<HTTPField.Name> = []) {
      self.informational = informational
      self.redirects = redirects
      self.sensitiveFields = sensitiveFields
    }
  }

  private var storage: Storage

  /// The head as it came, in wire order and case.
  public var head: ResponseHead { storage.head }
  /// The URL that answered, after redirects.
  package var parsedURL: ParsedURL { storage.parsedURL }
  /// The head of the request as it was sent, for verbose output; empty for a transport without one. It holds secrets.
  public var requestHead: [UInt8] { storage.requestHead }
  /// Interim responses (RFC 9110 15.2) before the final one, 100 (Continue) left out.
  public var informational: [ResponseHead] { storage.past?.informational ?? [] }
  /// Every redirect that led here, oldest first.
  public var redirects: [Redirect] { storage.past?.redirects ?? [] }
  /// Fields after the body (RFC 9110 6.5). Empty until the body has ended.
  public var trailers: FieldSection { storage.trailers }
  /// When what happened, for every request of the task. Empty until the body has ended.
  public var metrics: TaskMetrics { storage.metrics }

  /// What the requests of the task have marked as secrets, where others than its own were sent: by an interceptor, by a delegate.
  var sensitiveFields: Set<HTTPField.Name> { storage.past?.sensitiveFields ?? [] }

  /// A redirect that was followed.
  public struct Redirect: Sendable {
    package var url: ParsedURL
    /// The head of its response.
    public var head: ResponseHead
    /// The head of the request as it was sent; it holds secrets.
    public var requestHead: [UInt8] = []
    /// The URL that redirected, without userinfo and fragment.
    public var urlString: String { url.requestString }
  }

  package init(
    head: ResponseHead, url: ParsedURL, requestHead: [UInt8] = [], informational: [ResponseHead] = [],
    redirects: [Redirect] = []
  ) {
    let past = informational.isEmpty && redirects.isEmpty ? nil : Past(informational, redirects)
    storage = Storage(head: head, url: url, requestHead: requestHead, past: past)
  }

  /// See `sensitiveFields`.
  mutating func mark(_ sensitiveFields: Set<HTTPField.Name>) {
    guard !sensitiveFields.isEmpty else { return }
    storage = Storage(
      head: head, url: parsedURL, requestHead: requestHead, past: Past(informational, redirects, sensitiveFields))
  }

  /// Makes the response complete, in place if nobody else has it.
  mutating func end(trailers: FieldSection?, metrics: consuming TaskMetrics) {
    if !isKnownUniquelyReferenced(&storage) {
      storage = Storage(head: head, url: parsedURL, requestHead: requestHead, past: storage.past)
    }
    if let trailers { storage.trailers = trailers }
    storage.metrics = metrics
  }

  /// The URL that answered, after redirects; without userinfo and fragment.
  public var urlString: String { parsedURL.requestString }

  /// The status.
  public var status: HTTPResponse.Status { HTTPResponse.Status(code: head.status) }

  /// The status code.
  public var statusCode: Int { head.status }

  /// The fields, made when asked for. A value that is not UTF-8 is read as ISO-8859-1; `head.fields` has the bytes.
  public var fields: HTTPFields {
    var fields = HTTPFields()
    fields.reserveCapacity(head.fields.count)
    for index in 0..<head.fields.count {
      guard let name = HTTPField.Name(head.fields.name(at: index)) else { continue }
      fields.append(HTTPField(name: name, value: head.fields.value(at: index)))
    }
    return fields
  }

  /// The URL for Foundation; nil if Foundation cannot read it.
  public var url: URL? { URL(string: urlString) }

  /// The media type without parameters, in lower case, from `Content-Type`; nil if it is missing or malformed.
  public var mimeType: String? { mediaType.map { "\($0.type)/\($0.subtype)" } }

  /// The `charset` parameter of `Content-Type`.
  public var textEncodingName: String? { mediaType?.charset }

  /// `Content-Type`, read; nil if it is missing or malformed.
  package var mediaType: MediaType? {
    head.fields.first(named: "content-type").flatMap { MediaType($0) }
  }

  /// The length that `Content-Length` announces, before decoding; nil if it announces none.
  public var expectedContentLength: Int64? { head.fields.contentLength }

  /// The same for the body as it is delivered: nil where a coding is taken off on the way.
  func decodedLength(isDecoded: Bool) -> Int64? {
    guard let length = expectedContentLength, isDecoded, head.fields.has(.contentEncoding) else {
      return expectedContentLength
    }
    // A coding that is not ours passes as it came. How many are undone is for the session to say.
    let codings = try? ContentCodings.parse(head.fields.values(.contentEncoding), atMost: .max)
    return codings?.isEmpty == false ? nil : length
  }

  /// A name to save the body under: from `Content-Disposition`, else the last component of the URL's path, without its percent-encoding, else "download".
  /// One path component without separators, control bytes or leading dots.
  public var suggestedFileName: String {
    if let name = head.fields.first(named: "content-disposition").flatMap({ ContentDisposition($0)?.fileName }) {
      return name
    }
    let path = urlString.split(separator: "?", maxSplits: 1)[0]
    let last = path.split(separator: "/").dropFirst(2).last.map(String.init) ?? ""
    return SafeFileName.name(ofSegment: last) ?? "download"
  }
}
