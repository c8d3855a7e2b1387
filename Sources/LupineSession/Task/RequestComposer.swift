internal import HTTPTypes
internal import LupineRules
internal import LupineWire

/// What a session adds to the fields of its requests.
final class RequestComposer: Sendable {
  let userAgent: String?
  let accept: String?
  let additionalFields: HTTPFields
  /// Whether there are none.
  fileprivate let addsNone: Bool
  let acceptsCompressedContent: Bool
  /// Whether the session's own fields say that a connection serves once.
  let closesConnections: Bool
  /// The fields of a request that sets none itself, with and without an offer of codings, checked and encoded once.
  private let defaults: (offering: PreparedFields, plain: PreparedFields)

  /// - Throws: `WireError` if the user agent or what is accepted would break the framing.
  init(
    userAgent: String?, accept: String?, additionalFields: HTTPFields, acceptsCompressedContent: Bool
  ) throws(WireError) {
    self.userAgent = userAgent
    self.accept = accept
    self.additionalFields = additionalFields
    addsNone = additionalFields.isEmpty
    self.acceptsCompressedContent = acceptsCompressedContent
    var marks = RequestMarks()
    for field in additionalFields { marks.note(field.name.rawName, field.value) }
    closesConnections = marks.closesConnection
    var fields: [(name: String, value: String)] = []
    if let userAgent { fields.append(("User-Agent", userAgent)) }
    if let accept { fields.append(("Accept", accept)) }
    let plain = try PreparedFields(fields)
    fields.append(("Accept-Encoding", ContentCodings.acceptEncoding))
    defaults = (try PreparedFields(fields), plain)
  }

  fileprivate func prepared(offering: Bool) -> PreparedFields {
    offering ? defaults.offering : defaults.plain
  }
}

/// The complete list of fields of one request, in the order in which they are sent; made when it is asked for.
///
/// Most requests are the first of their task, and have no fields of their own: nothing is copied for them, as a request is a large value.
struct ComposedFields: Sendable {
  /// What is not the same in every exchange of a task.
  final class Hop: Sendable {
    let request: Request
    let chain: Chain

    init(_ chain: Chain, _ original: Request) {
      self.chain = chain
      request = chain.base ?? original
    }
  }

  let run: TaskRun
  /// Nil for the first exchange.
  let hop: Hop?
  let url: ParsedURL
  /// Whether there is nothing but what the session adds.
  let isDefault: Bool
  /// What the fields of a first exchange come to, if they are shared by requests.
  private var encoded: EncodedFields.Entry?

  init(run: TaskRun, hop: Hop?, url: ParsedURL) {
    self.run = run
    self.hop = hop
    self.url = url
    let addsNone = run.session.composer.addsNone
    if let hop {
      isDefault = addsNone && !hop.request.hasFields && hop.chain.answers.isEmpty
    } else {
      isDefault = addsNone && !run.request.hasFields
      if addsNone, !isDefault, let shared = run.request.encodedFields {
        encoded = shared.entry(composer, offers: offers, make: encodedEntry)
      }
    }
  }

  private func encodedEntry() -> EncodedFields.Entry {
    // An expectation of the caller's is left out of some requests with the same fields.
    let isPreparable = !fields.contains(.host) && !fields.contains(.expect)
    return EncodedFields.Entry(
      composer: composer, offers: offers,
      // What is refused is refused again, with its reason, when the head is written field by field.
      prepared: isPreparable ? try? PreparedFields(preparablePairs) : nil, offersCodings: computedOffersCodings,
      marks: computedMarks, hasCookie: fields.contains(.cookie),
      namesProxy: fields.contains { OriginRule.isForProxy(lowercased: $0.name.canonicalName) })
  }

  private var composer: RequestComposer { run.session.composer }
  private var fields: HTTPFields { if let hop { hop.request.fields } else { run.request.fields } }
  private var handlesCookies: Bool { if let hop { hop.request.handlesCookies } else { run.request.handlesCookies } }

  private var offers: Bool {
    let own = if let hop { hop.request.acceptsCompressedContent } else { run.request.acceptsCompressedContent }
    return own ?? composer.acceptsCompressedContent
  }

  /// Whether the content codings of the answer were offered by us, so that we decode them.
  var offersCodings: Bool { encoded?.offersCodings ?? computedOffersCodings }

  private var computedOffersCodings: Bool {
    guard offers else { return false }
    guard !isDefault else { return true }
    return !contains(.acceptEncoding) && !contains(.range)
  }

  /// The same with further fields, in the place of what has their names.
  func adding(_ fields: [(name: String, value: String)]) -> ComposedFields {
    var chain = hop?.chain ?? Chain(run.request)
    chain.answers += fields
    return ComposedFields(run: run, hop: Hop(chain, run.request), url: url)
  }

  /// The same with the cookies that the jar has now, whatever becomes of the jar.
  func settlingCookies() -> ComposedFields {
    let configuration = run.session.configuration
    guard configuration.cookieStorage != nil, configuration.setsCookies, handlesCookies else { return self }
    var chain = hop?.chain ?? Chain(run.request)
    if let cookies = jarCookies { chain.answers.append(("Cookie", cookies)) }
    var base = request
    base.handlesCookies = false
    chain.base = base
    return ComposedFields(run: run, hop: Hop(chain, run.request), url: url)
  }

  /// The request of this hop.
  var request: Request { hop?.request ?? run.request }

  private func contains(_ name: HTTPField.Name) -> Bool {
    fields.contains(name) || composer.additionalFields.contains(name)
  }

  /// What the jar has for this hop (RFC 6265bis section 5.8). A `Cookie` field of the caller's takes its place, as long as it is sent.
  private var jarCookies: String? {
    // Field by field: a copy of a whole configuration counts a dozen references.
    guard let jar = run.session.configuration.cookieStorage, !jar.isEmpty, run.session.configuration.setsCookies,
      handlesCookies, isDefault || !sendsOwnCookies
    else { return nil }
    return jar.field(for: CookieContext(url: url, mainDocument: (hop?.request ?? run.request).mainDocument))
  }

  /// Whether a `Cookie` field of the caller's goes to this hop.
  private var sendsOwnCookies: Bool {
    if let encoded { return encoded.hasCookie }
    if fields.contains(.cookie) { return !(hop?.chain.strip.contains(.sensitive) ?? false) }
    return composer.additionalFields.contains(.cookie) && !(hop?.chain.history.strip.contains(.sensitive) ?? false)
  }

  /// All fields as pairs.
  var pairs: [(name: String, value: String)] { pairs(isWhole: true) }

  /// Those that are the same in all first exchanges of requests with the same fields.
  private var preparablePairs: [(name: String, value: String)] { pairs(isWhole: false) }

  private func pairs(isWhole: Bool) -> [(name: String, value: String)] {
    let fields = fields
    let answers = hop?.chain.answers ?? []
    // A request that a delegate answered with has lost what it must; the session's own fields are new to every hop.
    let strip = (own: hop?.chain.strip ?? [], session: hop?.chain.history.strip ?? [])
    // RFC 9110 7.2 recommends Host first. The caller may name another one, for the first origin only.
    let host = strip.own.contains(.target) ? nil : fields[.host]
    var pairs = isWhole ? [(name: "Host", value: host ?? url.authority)] : []
    // Ours stands in its place: as a list of two, some servers refuse it.
    let expects = if let hop { hop.request.expectsContinue } else { run.request.expectsContinue }
    let trailers = isWhole && hasTrailers ? trailerNames : []
    // In chunks it says nothing that is not so, and may not stand there (RFC 9112 section 6.2).
    let length = trailers.isEmpty ? nil : request.body.knownLength.map { String($0) }
    // HTTPFields takes cookies apart, as HTTP/2 may send them; HTTP/1.1 has one field for them (RFC 9113 section 8.2.3).
    var cookies: Int?
    func take(_ field: HTTPField, _ strip: OriginRule.Strip) {
      guard field.name != .host, !expects || field.name != .expect, trailers.isEmpty || field.name != .trailer,
        length == nil || field.name != .contentLength || field.value != length,
        !answers.contains(where: { $0.name.lowercased() == field.name.canonicalName }),
        !OriginRule.strips(field.name.rawName, strip, isMarkedSensitive: isSensitive(field.name))
      else { return }
      if field.name == .cookie {
        if let cookies { return pairs[cookies].value = pairs[cookies].value.followedBy(cookies: field.value) }
        cookies = pairs.count
      }
      if field.name == .referer {
        let value = OriginRule.referrer(given: field.value, entering: url, crossed: strip.contains(.sensitive))
        if let value { pairs.append((field.name.rawName, value)) }
        return
      }
      pairs.append((field.name.rawName, field.value))
    }
    for field in fields { take(field, strip.own) }
    for field in composer.additionalFields where !fields.contains(field.name) { take(field, strip.session) }
    pairs += answers
    if !trailers.isEmpty { pairs.append(("Trailer", trailers.map(\.rawName).joined(separator: ", "))) }
    if isWhole, let cookies = jarCookies { pairs.append(("Cookie", cookies)) }
    if !contains(.userAgent), let userAgent = composer.userAgent { pairs.append(("User-Agent", userAgent)) }
    if !contains(.accept), let accept = composer.accept { pairs.append(("Accept", accept)) }
    if !contains(.acceptEncoding) {
      // A range of the coded form could not be decoded, and silence accepts every coding (RFC 9110 section 12.5.3).
      let codings = contains(.range) ? "identity" : offers ? ContentCodings.acceptEncoding : nil
      if let codings { pairs.append(("Accept-Encoding", codings)) }
    }
    return pairs
  }

  /// Whether a request of the task, its own or one that took its place, or the session says that a field is a secret.
  func isSensitive(_ name: HTTPField.Name) -> Bool {
    run.isSensitive(name) || hop?.chain.sensitiveFields.contains(name) ?? false
  }

  /// All fields that are marked so.
  var sensitiveFields: Set<HTTPField.Name> {
    run.request.sensitiveFields.union(run.session.configuration.sensitiveFields).union(hop?.chain.sensitiveFields ?? [])
  }

  private static let blankBytes = [UInt8](repeating: 0, count: 1024)

  /// Zeroes to write over. Not by `Array(repeating:count:)` as long as few are wanted: it asks the runtime for the metadata of its storage.
  private static func blank(_ size: Int) -> [UInt8] {
    guard size <= blankBytes.count else { return [UInt8](repeating: 0, count: size) }
    return [UInt8](blankBytes[..<size])
  }

  /// The head as it is sent.
  ///
  /// - Parameter isExpecting: whether to ask for 100 (Continue).
  func head(
    method: String, framing: RequestFraming, isExpecting: Bool = false, form: HeadForm = .origin
  ) throws(WireError) -> [UInt8] {
    let isPlain = framing == .none && !isExpecting
    // Whoever sends one `Request` again and again, polling or in a loop, has its head written once.
    let isRepeatable = isPlain && isDefault && !form.isAbsolute
    let leavesAllIn = form.leavesAllIn(namingProxy: encoded?.namesProxy ?? true)
    let cookies = isDefault || leavesAllIn && encoded?.prepared != nil ? jarCookies : nil
    if isRepeatable, cookies == nil, let kept = url.keptHead, kept.serves(composer, method: method, variant: offers) {
      return kept.bytes
    }
    let target = form.isAbsolute ? url.requestString : url.target
    // Nothing that is shared announces what follows one body.
    let isShared = isPlain || !hasTrailers
    let prepared =
      !isShared
      ? nil : isDefault ? composer.prepared(offering: offers) : leavesAllIn ? encoded?.prepared : nil
    if let prepared, cookies == nil, isPlain {
      let host = url.authority
      let size = RequestEncoder.headSize(method: method, target: target, host: host, fields: prepared)
      var head = Self.blank(size)
      var output = head.mutableSpan
      try RequestEncoder.head(method: method, target: target, host: host, fields: prepared, into: &output)
      if isRepeatable, url.keptHead == nil, url.isAskedAgain() {
        url.keep(ParsedURL.KeptHead(head, by: composer, method: method, variant: offers))
      }
      return head
    }
    var head = try RequestHeadBuilder(method: method, target: target, framing: framing)
    if let prepared {
      try head.append("Host", url.authority)
      head.append(prepared)
      if let cookies { try head.append("Cookie", cookies) }
    } else {
      for (name, value) in pairs where !form.leavesOut(name) { try head.append(name, value) }
    }
    if isExpecting { try head.append("Expect", "100-continue") }
    return try head.finish()
  }

  /// What the request says of proxies; nil for almost every one.
  var proxy: ProxyConfiguration? { if let hop { hop.request.proxy } else { run.request.proxy } }

  var hasProxy: Bool { if let hop { hop.request.options.hasProxy } else { run.request.options.hasProxy } }

  /// Whether the request names fields that follow a body; false of almost every one.
  var hasTrailers: Bool { if let hop { hop.request.options.hasTrailers } else { run.request.options.hasTrailers } }

  /// Their names; none where the body is left out on the way, or was never there.
  var trailerNames: [HTTPField.Name] {
    if let hop { return hop.chain.sendsBody(of: run.request) ? hop.request.trailerNames : [] }
    if case .none = run.request.body { return [] }
    return run.request.trailerNames
  }

  /// What the request says of how much a body may grow; nil for almost every one.
  var maximumDecompressionRatio: Int? {
    if let hop { hop.request.maximumDecompressionRatio } else { run.request.maximumDecompressionRatio }
  }

  /// What the fields say to the engine; nil where there are none, so that most requests make no value.
  var marks: RequestMarks? { isDefault ? nil : encoded?.marks ?? computedMarks }

  private var computedMarks: RequestMarks {
    var marks = RequestMarks()
    let fields = fields
    // A key of the session's would be the same for every request, and say nothing of any.
    marks.closesConnection = composer.closesConnections && !fields.contains(.connection)
    for field in fields { marks.note(field.name.rawName, field.value) }
    return marks
  }
}

extension String {
  /// The value of a `Cookie` field that has these ones too.
  func followedBy(cookies: String) -> String {
    isEmpty ? cookies : cookies.isEmpty ? self : "\(self); \(cookies)"
  }
}

extension HTTPField.Name {
  static let host = HTTPField.Name("Host") ?? .location
}
