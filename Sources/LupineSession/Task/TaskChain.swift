internal import HTTPTypes
internal import LupineRules

/// Where redirects, challenges and delegates have led a task; nothing of it exists for the many requests that meet none.
struct Chain {
  /// What a delegate put in the place of the task's own request.
  var base: Request?
  var url: ParsedURL
  var method: String
  /// Counts the redirects, and says what the fields of the session go without.
  var history = RedirectChain()
  /// What the fields of the request itself go without: a request that a delegate answered with has lost them already.
  var strip: OriginRule.Strip = []
  /// The body was dropped on the way.
  var dropsBody = false
  var redirects: [Response.Redirect] = []
  /// Made anew by a delegate: the body of the next exchange.
  var newBody: BodyStream?
  /// The body was sent once, and can be sent again only if a delegate makes a new one.
  var needsNewBody = false
  /// Whatever the requests in the place of the task's own have marked; it only grows.
  private(set) var sensitiveFields: Set<HTTPField.Name>
  /// Fields that answer a challenge of the current origin.
  var answers: [(name: String, value: String)] = []

  init(_ request: Request) {
    url = request.parsedURL
    method = request.method.rawValue
    sensitiveFields = request.sensitiveFields
  }

  mutating func follow(_ step: RedirectStep, from redirect: Response.Redirect) {
    url = step.url
    method = step.method
    if step.crossesOrigin { strip.formUnion([.sensitive, .target]) }
    if step.dropsBody { strip.insert(.content) }
    history = step.chain
    dropsBody = dropsBody || step.dropsBody
    redirects.append(redirect)
    answers = []
  }

  /// The request that is sent next, in the shape that callers know.
  func request(instead original: Request, isMarkedSensitive: (HTTPField.Name) -> Bool) -> Request {
    var request = base ?? original
    // Whose the request is, its own URL says, and no `Location`: a relative one keeps that, and so does the same URL written out.
    let user = request.parsedURL.userinfo
    request.parsedURL = OriginRule.isSame(url, request.parsedURL) ? url.replacingUserinfo(user) : url
    if request.method.rawValue != method { request.method = HTTPRequest.Method(method) ?? .get }
    if !strip.isEmpty {
      request.fields = HTTPFields(
        request.fields.filter { field in
          !OriginRule.strips(
            field.name.rawName, strip,
            isMarkedSensitive: isMarkedSensitive(field.name) || sensitiveFields.contains(field.name))
        })
    }
    if dropsBody {
      request.body = .none
      if request.options.hasTrailers { request.trailerNames = [] }
    }
    if strip.contains(.sensitive) {
      request.credential = nil
      request.parsedURL = url.withoutUserinfo
      if let referrer = request.fields[.referer] {
        request.fields[.referer] = OriginRule.referrer(given: referrer, entering: url, crossed: true)
      }
    }
    return request
  }

  /// Whether the next exchange has a body.
  func sendsBody(of original: Request) -> Bool {
    guard !dropsBody else { return false }
    if case .none = (base ?? original).body { return newBody != nil }
    return true
  }

  /// Begins again, without the range that was asked for first.
  ///
  /// - Parameter former: where that has led.
  static func whole(of request: Request, behind former: Chain?) -> Chain {
    var chain = Chain(request)
    chain.strip = .range
    if let former { chain.history = former.history.restarted }
    chain.history.forbid(.range)
    return chain
  }

  /// A delegate's request takes the place of everything but the count of redirects, and of what the session's own fields go without.
  ///
  /// - Parameter proposed: what the delegate was shown.
  mutating func replace(with request: Request, insteadOf proposed: Request) {
    if request.parsedURL.origin != previousOrigin { history.forbid(.sensitive) }
    sensitiveFields.formUnion(request.sensitiveFields)
    base = request
    url = request.parsedURL
    method = request.method.rawValue
    strip = []
    dropsBody = false
    if case .none = request.body {
      // A body that the delegate took away, or that the method has no use for, is not asked for.
      var hadBody = true
      if case .none = proposed.body { hadBody = false }
      let takesBody = request.method == .post || request.method == .put || request.method == .patch
      if hadBody || request.method != proposed.method && !takesBody { needsNewBody = false }
      return
    }
    needsNewBody = needsNewBody && !request.body.isReplayable
  }

  private var previousOrigin: Origin { redirects.last?.url.origin ?? url.origin }
}
