internal import FoundationEssentials
internal import HTTPTypes
internal import LupineBase
internal import LupineRules
internal import LupineWire

/// What URLCache offers to programs: responses by request. Sessions whose configurations differ in what decides who answers for a URL (`tls`, a Unix socket,
/// overrides of names), and those whose delegates are asked about servers, have each their own: name the session then. Without one it is what sessions of the
/// default configuration share.
extension ResponseCache {
  private func place(_ request: Request, _ session: Session?) -> CachingTransport.Place {
    guard let caching = session?.exchanges as? CachingTransport else {
      return CachingTransport.Place(partition: "", isInMemoryOnly: false, domain: 0)
    }
    return caching.place(for: request.parsedURL)
  }

  private func query(_ request: Request, _ session: Session?) -> Query {
    let place = place(request, session)
    let fields = request.fields.joiningCookies.map { (name: $0.name.rawName, value: $0.value) }
    let configuration = session?.configuration
    let isDecoded =
      request.acceptsCompressedContent ?? configuration?.acceptsCompressedContent ?? true
      && !request.fields.contains(.acceptEncoding)
      && configuration?.additionalFields.contains(.acceptEncoding) != true
    let hasBody = if case .none = request.body { false } else { true }
    let marked = request.sensitiveFields.union(configuration?.sensitiveFields ?? [])
    var facts = CacheRequest(method: request.method.rawValue, hasBody: hasBody, fields: fields) { name in
      marked.contains { $0.canonicalName == name }
    }
    facts.compareHost(with: request.parsedURL.authority)
    return Query(
      first: CacheKey.first(partition: place.partition, isDecoded: isDecoded, url: request.parsedURL),
      isDecoded: isDecoded, isInMemoryOnly: place.isInMemoryOnly,
      request: facts, fields: { fields })
  }

  /// What is stored for a request, fresh or stale; nil if nothing is, or if the request is none that a session would answer with it: GET and HEAD are, without
  /// a body, `Range`, a precondition and a `Host` that is not the URL's (RFC 9111 section 4). Fields that a session adds on its own are not looked at.
  ///
  /// - Parameter session: whose responses; see above.
  public func cachedResponse(for request: Request, in session: Session? = nil) async -> CachedResponse? {
    let query = query(request, session)
    guard query.request.mayUseStored else { return nil }
    let stored: StoredResponse?
    switch find(query) {
    case .found(let response): stored = response
    case .missing: stored = nil
    case .onDisk(let key):
      // Through a lock: of a continuation that is resumed before it is awaited, ThreadSanitizer does not see that one comes before the other.
      let answer = Locked<StoredResponse?>(nil)
      await withCheckedContinuation { continuation in
        find(query, onDisk: key) { found in
          answer.withLock { $0 = found }
          continuation.resume()
        }
      }
      stored = answer.withLock { $0 }
    }
    guard let stored, let head = stored.head(at: now()) else { return nil }
    return CachedResponse(
      response: Response(head: head, url: request.parsedURL.withoutUserinfo), data: Data(stored.body))
  }

  /// Stores a response for a request, as if it had come just now, if it may be stored at all (RFC 9111 section 3): nothing but a GET has an answer that is;
  /// false if not, and where it, or what its head names, is too much to be kept, which makes forgotten what is stored of such a coding for the URL. Of cookies those count that stand in the
  /// request itself: what is `private` (RFC 9111 section 5.2.2.7), or varies by `Cookie`, is not found
  /// by a session that sends others from its storage. What varies (`Vary`) is stored beside the other responses of its URL: a file may be read for that.
  ///
  /// - Parameter session: who is answered with it; see above.
  @discardableResult
  public func store(_ cached: CachedResponse, for request: Request, in session: Session? = nil) -> Bool {
    let query = query(request, session)
    let storing = store(
      cached.response.head, [UInt8](cached.data), query, requestTime: now(), responseTime: now(), since: stamp,
      mayWait: true,
      isMarkedSensitive: { name in
        request.sensitiveFields.union(session?.configuration.sensitiveFields ?? []).contains {
          $0.canonicalName == name
        }
      })
    return storing == .stored
  }

  /// Forgets what is stored for the URL of a request.
  ///
  /// - Parameter session: who is not answered with it any more; see above. `removeAll` forgets for all.
  public func remove(for request: Request, in session: Session? = nil) {
    remove(url: request.parsedURL, partition: place(request, session).partition)
  }

  func remove(url: ParsedURL, partition: String) {
    for isDecoded in [true, false] {
      remove(first: CacheKey.first(partition: partition, isDecoded: isDecoded, url: url))
    }
  }

  /// How a response may be stored, and by which request fields it varies, if the rules let it be, whatever its size is.
  func permitted(
    _ head: ResponseHead, _ query: Query, isMarkedSensitive: (String) -> Bool
  ) -> (inMemoryOnly: Bool, varying: [String])? {
    let decision = StorageRule.decide(query.request, head, fields: query.fields, isMarkedSensitive: isMarkedSensitive)
    guard decision == .store || decision == .storeInMemory,
      let varying = StorageRule.varyingNames(head, of: query.fields, isMarkedSensitive: isMarkedSensitive)
    else { return nil }
    return (decision == .storeInMemory, varying)
  }

  enum Storing {
    case stored
    /// The rules do not let it, or there is no room for it.
    case refused
    /// What was asked for later is there.
    case outdated
  }

  /// Stores a complete response, if the rules let it and there is room for it: at once, or on a file thread where a disk has to be waited for and
  /// that may not be done here.
  ///
  /// - Parameters:
  ///   - mayWait: whether a disk may be waited for.
  ///   - then: called once the response is there, or will not be.
  @discardableResult
  func store(
    _ head: ResponseHead, _ body: [UInt8], _ query: Query, requestTime: Int64, responseTime: Int64,
    since stamp: Stamp, mayWait: Bool = false, isMarkedSensitive: (String) -> Bool,
    then: @escaping @Sendable () -> Void = {}
  ) -> Storing {
    guard let (inMemoryOnly, varying) = permitted(head, query, isMarkedSensitive: isMarkedSensitive) else {
      then()
      return .refused
    }
    guard body.count <= largestBody(isInMemoryOnly: inMemoryOnly || query.isInMemoryOnly) else {
      // What it would have taken the place of is no answer any more.
      remove(first: query.first)
      then()
      return .refused
    }
    let names = CacheKey.names(varying, isDecoded: query.isDecoded)
    let store: @Sendable (UInt64) -> Storing = { [self] generation in
      let response = StoredResponse(
        key: names.isEmpty ? query.first : query.second(names, generation), head: head, body: body,
        requestTime: requestTime, responseTime: responseTime,
        // What may be written down is for whoever is asking.
        authorization: inMemoryOnly ? query.request.authorization : nil)
      guard let response else { return .refused }
      insert(.response(response), for: query, inMemoryOnly: inMemoryOnly, since: stamp)
      return .stored
    }
    let found =
      names.isEmpty
      ? .number(0) : generation(names, for: query, inMemoryOnly: inMemoryOnly, since: stamp, mayWait: mayWait)
    switch found {
    case .number(let generation):
      let storing = store(generation)
      if storing == .refused { remove(first: query.first) }
      then()
      return storing
    case .outdated:
      then()
      return .outdated
    case .onDisk:
      let forget: @Sendable () -> Void = { [self] in
        remove(first: query.first)
        then()
      }
      onWriter(
        { [self] in
          let generation = generation(names, for: query, inMemoryOnly: inMemoryOnly, since: stamp, mayWait: true)
          if case .number(let generation) = generation, store(generation) == .refused { return forget() }
          then()
        }, orElse: forget)
      return .stored
    }
  }

  /// What is stored, with the fields of a 304; stored again, and stored no more if the fields forbid it. If the request does, what is stored stays as
  /// it is, whatever the fields say.
  func update(
    _ stored: StoredResponse, by answer: ResponseHead, _ query: Query, requestTime: Int64, responseTime: Int64,
    since stamp: Stamp, isMarkedSensitive: (String) -> Bool
  ) -> StoredResponse? {
    let updated = stored.updated(
      by: answer, requestTime: requestTime, responseTime: responseTime, key: stored.key,
      authorization: query.request.authorization)
    guard let updated else { return nil }
    // RFC 9111 section 5.2.1.5: `no-store` of a request is about its own answer, and says nothing of what is stored.
    guard query.request.mayBeStored else { return updated }
    let storing = store(
      updated.head, updated.body, query, requestTime: requestTime, responseTime: responseTime, since: stamp,
      isMarkedSensitive: isMarkedSensitive)
    // Where the rules refuse it; for what is too much it is done.
    if storing == .refused { remove(first: query.first) }
    return updated
  }
}
