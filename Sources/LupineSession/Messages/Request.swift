public import FoundationEssentials
public import HTTPTypes
package import LupineRules

/// A request: where to, what, and how long it may take.
///
/// The URL is read once, when the request is made, by one strict reader (RFC 3986, IDNA); Foundation's `URL` is only a carrier.
public struct Request: Sendable {
  /// The body of a request.
  public enum Body: Sendable {
    /// None.
    case none
    /// Bytes in memory.
    case bytes([UInt8])
    /// A file, read while it is sent, from `offset` on, so many bytes (nil: to its end as it is when the request starts).
    case file(path: String, offset: Int64 = 0, length: Int64? = nil)
    /// A sequence of chunks. Without a length the body is chunked; with one it must have exactly that many bytes.
    /// `makeStream` is called once for each attempt; `isReplayable` says whether it may be called more than once.
    case stream(length: Int64?, isReplayable: Bool, makeStream: @Sendable () -> BodyStream)
    /// Pieces, one after another, as the parts of a form. The length is announced if that of every piece is known, else the body is chunked;
    /// it can be replayed if every piece can.
    case segments([Segment])

    /// A piece of a body that has several.
    public enum Segment: Sendable {
      /// Bytes in memory.
      case bytes([UInt8])
      /// Part of a file, read while it is sent, as `Body.file`. `fileSize` is what the whole file must have, before and while it is sent:
      /// anything else fails the request with `SessionError.Code.fileChanged` before it is complete. Nil: it may grow.
      case file(path: String, offset: Int64 = 0, length: Int64? = nil, fileSize: Int64? = nil)
      /// A sequence of chunks, as `Body.stream`.
      case stream(length: Int64?, isReplayable: Bool, makeStream: @Sendable () -> BodyStream)
    }

    /// Foundation's bytes.
    public static func data(_ data: Data) -> Body { .bytes([UInt8](data)) }

    /// An async sequence of chunks, which can be sent only once.
    public static func sequence<Chunks: AsyncSequence & Sendable>(_ chunks: Chunks, length: Int64? = nil) -> Body
    where Chunks.Element == [UInt8] {
      .stream(length: length, isReplayable: false) { BodyStream(chunks) }
    }
  }

  /// Everything, behind one reference: a request goes through many hands, and is changed in few of them.
  ///
  /// `@unchecked`: it is changed by whoever holds the only reference, as in every type that copies when it is written.
  private final class Storage: @unchecked Sendable {
    var parsedURL: ParsedURL
    var method: HTTPRequest.Method
    var fields: HTTPFields
    /// Whether there are any: each request is asked, and to look into them is dearer.
    private(set) var hasFields = false
    var encodedFields: EncodedFields?
    var body: Body
    // Behind one reference more, because most requests have the same.
    var options: RequestOptions

    init(
      _ parsedURL: ParsedURL, _ method: HTTPRequest.Method, _ fields: HTTPFields, _ encodedFields: EncodedFields?,
      _ body: Body, _ options: RequestOptions
    ) {
      self.parsedURL = parsedURL
      self.method = method
      self.fields = fields
      self.encodedFields = encodedFields
      self.body = body
      self.options = options
      hasFields = !fields.isEmpty
    }

    /// After each change of `fields`, also one that ends with an error, which a `didSet` does not hear of.
    func noteFields() {
      hasFields = !fields.isEmpty
      encodedFields = nil
    }
  }

  private var storage: Storage

  private mutating func own() -> Storage {
    if isKnownUniquelyReferenced(&storage) { return storage }
    let shared = storage
    storage = Storage(
      shared.parsedURL, shared.method, shared.fields, shared.encodedFields, shared.body, shared.options)
    return storage
  }

  /// The URL as it was read: normalised host, dot segments and escapes as given.
  package var parsedURL: ParsedURL {
    get { storage.parsedURL }
    set { own().parsedURL = newValue }
  }
  /// The method. Default GET.
  public var method: HTTPRequest.Method {
    get { storage.method }
    set { own().method = newValue }
  }
  /// The fields. `Host` and the framing fields are made from the URL and the body. A `Host` given here goes to the first origin as it
  /// is, whatever the URL says, redirects within that origin included; framing fields must agree with the body. A `Referer` goes without userinfo and
  /// fragment; behind a redirect to another origin another one than its own hears the origin alone, and nothing over http of a page that came over https.
  public var fields: HTTPFields {
    get { storage.fields }
    _modify {
      let storage = own()
      defer { storage.noteFields() }
      yield &storage.fields
    }
  }
  /// Whether there are `fields`.
  var hasFields: Bool { storage.hasFields }
  /// The encoded form of `fields`, shared with other requests that have the same; nil once they change. Set it after `fields`.
  package var encodedFields: EncodedFields? {
    get { storage.encodedFields }
    set { own().encodedFields = newValue }
  }
  /// The body. Default none.
  public var body: Body {
    get { storage.body }
    set { own().body = newValue }
  }
  /// Names of fields that are secrets besides the known ones, which are `Authorization`, `Proxy-Authorization`, `Cookie`, and what carries a key by custom: `X-Api-Key`,
  /// `Api-Key`, `X-Auth-Token`, `X-Access-Token`, `X-Amz-Security-Token`, `X-Goog-Api-Key` and `Private-Token`. Secrets are dropped when a redirect leaves the
  /// origin, and never logged. Default none.
  public var sensitiveFields: Set<HTTPField.Name> {
    get { options.values.sensitiveFields }
    set { change { $0.sensitiveFields = newValue } }
  }
  /// Ask for 100 (Continue) before the body is sent (RFC 9110 10.1.1). Default false. A field `Expect` among `fields` is sent as it is and holds
  /// nothing back: set this instead. Beside this it is left out.
  public var expectsContinue: Bool {
    get { options.values.expectsContinue }
    set { change { $0.expectsContinue = newValue } }
  }
  /// Overrides `SessionConfiguration.timeoutIntervalForRequest`.
  public var timeoutInterval: Duration? {
    get { options.values.timeoutInterval }
    set { change { $0.timeoutInterval = newValue } }
  }
  /// Overrides `SessionConfiguration.timeoutIntervalForResource`.
  public var totalTimeout: Duration? {
    get { options.values.totalTimeout }
    set { change { $0.totalTimeout = newValue } }
  }
  /// Overrides `SessionConfiguration.redirects`.
  public var redirects: RedirectConfiguration? {
    get { options.values.redirects }
    set { change { $0.redirects = newValue } }
  }
  /// Overrides `SessionConfiguration.acceptsCompressedContent`.
  public var acceptsCompressedContent: Bool? {
    get { options.values.acceptsCompressedContent }
    set { change { $0.acceptsCompressedContent = newValue } }
  }
  /// Overrides `SessionConfiguration.maximumBufferedBodySize`.
  public var maximumBufferedBodySize: Int? {
    get { options.values.maximumBufferedBodySize }
    set { change { $0.maximumBufferedBodySize = newValue } }
  }
  /// Overrides `SessionConfiguration.maximumDecompressionRatio`, for the redirects that follow too: decoded bytes of the body for each byte of it that came.
  /// `Int.max` is unlimited, less than 1 is 1; nil, the default, is what the session says.
  public var maximumDecompressionRatio: Int? {
    get { options.values.maximumDecompressionRatio }
    set { change { $0.maximumDecompressionRatio = newValue } }
  }
  /// Overrides `SessionConfiguration.requestCachePolicy`. Without a `SessionConfiguration.responseCache` it means nothing, but for
  /// `.returnCacheDataDontLoad`, by which the request fails then.
  public var cachePolicy: RequestCachePolicy? {
    get { options.values.cachePolicy }
    set { change { $0.cachePolicy = newValue } }
  }
  /// Whether the request gets cookies and its responses set them. Default true.
  public var handlesCookies: Bool {
    get { options.values.handlesCookies }
    set { change { $0.handlesCookies = newValue } }
  }
  /// What the request is for; overrides `SessionConfiguration.networkServiceType`.
  public var networkServiceType: NetworkServiceType? {
    get { options.values.networkServiceType }
    set { change { $0.networkServiceType = newValue } }
  }
  /// Whether the request may go over a mobile network; without effect where `SessionConfiguration.allowsCellularAccess` is false. Default true.
  public var allowsCellularAccess: Bool {
    get { options.values.allowsCellularAccess }
    set { change { $0.allowsCellularAccess = newValue } }
  }
  /// Who is asking, for the origin of the URL alone: it takes the place of a user in the URL and of the session's storage there, and is gone once
  /// a redirect has left the origin. A field `Authorization` among `fields` is sent as it is instead, and a 401 to it is the answer. Default nil.
  public var credential: Credential? {
    get { options.values.credential }
    set { change { $0.credential = newValue } }
  }
  /// Overrides `SessionConfiguration.proxy`, for the redirects that follow too. `.environment` is read anew for each exchange.
  public var proxy: ProxyConfiguration? {
    get { options.values.proxy }
    set { change { $0.proxy = newValue } }
  }

  /// The names of the fields that follow the body, as a checksum does that is made while it is sent (RFC 9110 section 6.5): a field `Trailer` announces them,
  /// in the place of one among `fields`. The values come from the stream of the body, `BodyStream.withTrailers(_:)` or `Body.withTrailers(_:)`, anew for
  /// each attempt. The body is sent in chunks then, whatever its length; one that is no stream fails with `.badTrailers`, and without a body, as behind a
  /// redirect that drops it, nothing is announced. A `Content-Length` of the length that the body has anyway is left out. Not every server reads them.
  ///
  /// Refused with `.badTrailers` before anything is sent: more than 128 names; fields that frame, route or control the message, ask for a condition or for a
  /// form of the answer, say how to read the body, or `Referer`; secrets, those of `sensitiveFields` included. A `Trailer` among `fields` alone is sent as it is, and
  /// announces nothing. Default none. Source: `Request.Trailer` of Go's net/http.
  public var trailerNames: [HTTPField.Name] {
    get { options.values.trailerNames }
    set { change { $0.trailerNames = newValue } }
  }

  /// Which site the request belongs to; see `setMainDocument(_:)`.
  package var mainDocument: ParsedURL? { options.values.mainDocument }

  private(set) var options: RequestOptions {
    get { storage.options }
    set { own().options = newValue }
  }

  private mutating func change(_ apply: (inout RequestOptions.Values) -> Void) {
    var values = options.values
    apply(&values)
    options = RequestOptions(values)
  }

  /// Makes a request from the text of a URL.
  ///
  /// - Throws: `SessionError` with `.badURL`, which says what is wrong and where.
  public init(
    _ url: String, method: HTTPRequest.Method = .get, fields: HTTPFields = HTTPFields(), body: Body = .none
  ) throws(SessionError) {
    do throws(URLRefusal) {
      self.init(parsed: try URLReader.read(url), method: method, fields: fields, body: body)
    } catch {
      throw SessionError(
        .badURL, phase: .prepare, message: "the URL cannot be fetched: \(error)", underlying: error)
    }
  }

  /// Makes a request from Foundation's URL; its text is read again by our reader.
  ///
  /// - Throws: `SessionError` with `.badURL`.
  public init(
    _ url: URL, method: HTTPRequest.Method = .get, fields: HTTPFields = HTTPFields(), body: Body = .none
  ) throws(SessionError) {
    try self.init(url.absoluteString, method: method, fields: fields, body: body)
  }

  package init(parsed: ParsedURL, method: HTTPRequest.Method, fields: HTTPFields, body: Body) {
    storage = Storage(parsed, method, fields, nil, body, .usual)
  }

  /// Says for which document the request is made, as `URLRequest.mainDocumentURL` does: for cookies, a request to another registrable domain or
  /// scheme than the document's is then one across sites. Without a document, the default, a request is one of its own.
  ///
  /// - Throws: `SessionError` with `.badURL`.
  public mutating func setMainDocument(_ url: String?) throws(SessionError) {
    let document: ParsedURL? = if let url { try Request(url).parsedURL } else { nil }
    change { $0.mainDocument = document }
  }

  /// The document that the request is made for, normalised; nil by default.
  public var mainDocumentURLString: String? { mainDocument?.requestString }

  /// The URL as text: normalised, without userinfo and fragment.
  public var urlString: String { parsedURL.requestString }

  /// The URL for Foundation; nil if Foundation cannot read it.
  public var url: URL? { URL(string: parsedURL.absoluteString) }
}

/// Chunks of a body, pulled one at a time: the next is asked for when the socket has room for it.
public struct BodyStream: Sendable {
  let run: @Sendable (_ write: @escaping @Sendable ([UInt8]) async -> Bool) async throws -> Void
  /// Gives what follows the chunks, once they have been taken; nil: nothing does.
  let trailers: (@Sendable () async throws -> HTTPFields)?

  package init(
    run: @escaping @Sendable (_ write: @escaping @Sendable ([UInt8]) async -> Bool) async throws -> Void,
    trailers: (@Sendable () async throws -> HTTPFields)? = nil
  ) {
    self.run = run
    self.trailers = trailers
  }

  /// The chunks of an async sequence.
  public init<Chunks: AsyncSequence & Sendable>(_ chunks: Chunks) where Chunks.Element == [UInt8] {
    trailers = nil
    run = { write in
      for try await chunk in chunks {
        guard await write(chunk) else { return }
      }
    }
  }

  /// The chunks of a sequence.
  public init<Chunks: Sequence & Sendable>(_ chunks: Chunks) where Chunks.Element == [UInt8] {
    trailers = nil
    run = { write in
      for chunk in chunks {
        guard await write(chunk) else { return }
      }
    }
  }
}
