internal import Dispatch
internal import Foundation
internal import HTTPTypes
internal import LupineBase
internal import LupineRules
internal import LupineSession
internal import Synchronization

/// Where a downloader gets its tasks.
struct ImageTransport: Sendable {
  typealias Completion = @Sendable (Response?, EncodedImage?, (any Error)?) -> Void

  /// A task that has not begun, and calls back once however it ends.
  var makeTask: @Sendable (Request, @escaping Completion) -> DataTask
  /// Called when the downloader is gone.
  var shutDown: @Sendable () -> Void
  /// What the session says of cookies and of secrets.
  private let configuration: SessionConfiguration

  /// Tasks of a manager, which posts their notifications.
  init(_ manager: SessionManager, _ serializer: ImageResponseSerializer, shutDown: @escaping @Sendable () -> Void) {
    makeTask = { request, completion in
      manager.dataTask(with: request, responseSerializer: serializer) { response, value, error in
        // An error page may well be an image: it is no answer.
        let image = error == nil ? value as? EncodedImage : nil
        completion(response, image, error ?? (image == nil ? Self.missing(response) : nil))
      }
    }
    self.shutDown = shutDown
    configuration = manager.sessionConfiguration
  }

  /// What is wrong with a success that is no image: the answer to a HEAD, or one that went to a file.
  private static func missing(_ response: Response?) -> SerializationError {
    SerializationError(.cannotParseResponse, message: "the response brought no image", response: response)
  }

  /// Whether a field of a request names a user by itself. The cookies of a jar do not: they are the session's, whoever asks.
  func namesUser(_ name: HTTPField.Name, in request: Request) -> Bool {
    OriginRule.isCredential(lowercased: name.canonicalName) || request.sensitiveFields.contains(name)
      || configuration.sensitiveFields.contains(name)
  }

  /// Whether a request names a user in its head as it was sent.
  ///
  /// - Parameter request: as it was sent last, after what led there.
  func namesUser(_ requestHead: [UInt8], of request: Request) -> Bool {
    let hasJar = configuration.cookieStorage != nil && configuration.setsCookies && request.handlesCookies
    return requestHead.split(separator: UInt8(ascii: "\n")).contains { line in
      guard let colon = line.firstIndex(of: UInt8(ascii: ":")),
        let name = HTTPField.Name(String(decoding: line[..<colon], as: UTF8.self)), namesUser(name, in: request),
        !(name == .cookie && hasJar)
      else { return false }
      // What the session says to everybody tells nobody apart.
      let value = String(decoding: line[(colon + 1)...], as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
      let own = configuration.additionalFields
      // Several cookies are sent in one field.
      return !own[values: name].contains(value) && own[name] != value
    }
  }
}

/// The part of a downloader that its tasks hold: the downloader itself can go while they run.
final class ImageDownloadCore: Sendable {
  typealias Completion = @Sendable (Result<DownloadedImage, any Error>) -> Void

  /// One who waits for an image.
  final class Handler: Sendable {
    let request: Request
    /// Where it is called; nil: at once, on whatever thread.
    let queue: DispatchQueue?
    let completion: Completion

    init(request: Request, queue: DispatchQueue?, completion: @escaping Completion) {
      self.request = request
      self.queue = queue
      self.completion = completion
    }

    func deliver(_ result: Result<DownloadedImage, any Error>) {
      guard let queue else { return completion(result) }
      queue.async { [completion] in completion(result) }
    }
  }

  private struct State {
    var machine: ImageDownloadMachine<Handler>
    var tasks: [UInt64: DataTask] = [:]
    /// The delegates of these, which the tasks themselves let go of at their end.
    var delegates: [UInt64: ManagedTask] = [:]
    var lastNumber: UInt64 = 0
    var cache: (any ImageRequestCache)?
  }

  private let transport: ImageTransport
  private let state: LockedStorage<State>

  init(
    transport: ImageTransport, maximum: Int, prioritization: ImageDownloadPrioritization,
    cache: (any ImageRequestCache)?
  ) {
    self.transport = transport
    state = LockedStorage(
      State(machine: ImageDownloadMachine(maximum: maximum, prioritization: prioritization), cache: cache))
  }

  var cache: (any ImageRequestCache)? {
    get { state.withLock { $0.cache } }
    set {
      // The former one is let go of outside of the lock: it may ask the downloader when it goes.
      let former = state.withLock { state in
        defer { state.cache = newValue }
        return state.cache
      }
      withExtendedLifetime(former) {}
    }
  }

  /// Downloads that hold a place.
  var running: Int { state.withLock { $0.machine.running } }

  // MARK: Requests

  func start(_ handler: Handler, receiptID: UUID, policy: ImageCachePolicy) -> ImageDownloadReceipt? {
    let request = handler.request
    let key = Self.key(request, policy)
    if let receipt = join(key, handler, receiptID) { return receipt }
    if policy != .reload, mayComeFromMemory(request),
      let image = cache?.image(for: request, additionalIdentifier: nil)
    {
      handler.deliver(.success(DownloadedImage(request: request, response: nil, image: image)))
      return nil
    }
    guard policy != .onlyCache else {
      let error = SessionError(
        .imageNotCached, phase: .prepare, message: "the image is not in memory, and may not be downloaded",
        failingURL: request.urlString)
      handler.deliver(.failure(error))
      return nil
    }
    return add(key, handler, receiptID, isReload: policy == .reload)
  }

  private func join(_ key: String?, _ handler: Handler, _ receiptID: UUID) -> ImageDownloadReceipt? {
    state.withLock { state in
      let number = state.lastNumber + 1
      guard let download = state.machine.join(key, receipt: number, handler: handler),
        let task = state.tasks[download]
      else { return nil }
      state.lastNumber = number
      return ImageDownloadReceipt(receiptID: receiptID, task: task, download: download, number: number)
    }
  }

  private func add(_ key: String?, _ handler: Handler, _ receiptID: UUID, isReload: Bool) -> ImageDownloadReceipt {
    let number = state.withLock { state in
      state.lastNumber += 1
      return state.lastNumber
    }
    var request = handler.request
    if isReload, !Self.isReload(request) { request.cachePolicy = .reloadIgnoringLocalCacheData }
    // Made before it is known to be needed, because nothing of others is called under a lock.
    let task = transport.makeTask(request) { [self] response, image, error in
      finish(number, response, image, error)
    }
    let (receipt, begins): (ImageDownloadReceipt, Bool) = state.withLock { state in
      let receipt = ImageDownloadReceipt(receiptID: receiptID, task: task, download: number, number: number)
      if let other = state.machine.join(key, receipt: number, handler: handler), let shared = state.tasks[other] {
        return (ImageDownloadReceipt(receiptID: receiptID, task: shared, download: other, number: number), false)
      }
      state.tasks[number] = task
      state.delegates[number] = task.delegate as? ManagedTask
      return (receipt, state.machine.add(number, key: key, receipt: number, handler: handler))
    }
    // By the end of its session, and told before anybody was there to hear of it. One without an error has begun since, in the place of another that has ended,
    // and its image is on its way.
    if task.state == .completed, let error = task.error { finish(number, nil, nil, error) }
    if begins {
      task.resume()
    } else if receipt.download != number {
      task.cancel()
    }
    return receipt
  }

  /// What makes two requests one: URL, method, fields, whether the jar is used, and what may be taken from caches. Nil for requests with a body or a user
  /// of their own, which are always apart, and for those of the memory alone: they wait for no download.
  static func key(_ request: Request, _ policy: ImageCachePolicy) -> String? {
    guard policy != .onlyCache, case .none = request.body, request.credential == nil, request.parsedURL.userinfo == nil
    else { return nil }
    let fields = request.fields.map { "\($0.name.canonicalName): \($0.value)" }.sorted()
    let stores = "\(request.handlesCookies) \(policy == .reload) \(request.cachePolicy?.rawValue ?? "")"
    return ([request.method.rawValue, request.parsedURL.identity, stores] + fields).joined(separator: "\n")
  }

  /// Whether the image is for one user, named by a credential, by the URL, by `Authorization`, by a `Cookie` of the request's own or by a field that is
  /// marked as a secret: such a one is neither taken from memory, which knows URLs alone, nor kept there, not even if an interceptor names the user.
  private func isPersonal(_ request: Request) -> Bool {
    request.credential != nil || request.parsedURL.userinfo != nil
      || request.fields.contains { transport.namesUser($0.name, in: request) }
  }

  /// Whether the image is that of the URL, for everybody: memory knows URLs alone, and what answers another method or a body is not told by them.
  func isOfURL(_ request: Request) -> Bool {
    guard request.method == .get, case .none = request.body else { return false }
    return !isPersonal(request)
  }

  /// Whether an image in memory will do: for everybody, and not one that the request wants anew. Source: `-[AFImageDownloader
  /// downloadImageForURLRequest:…]`, which asks the request's cache policy.
  func mayComeFromMemory(_ request: Request) -> Bool { !Self.isReload(request) && isOfURL(request) }

  /// Whether the request itself wants what is stored nowhere.
  static func isReload(_ request: Request) -> Bool {
    switch request.cachePolicy {
    case .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData, .reloadRevalidatingCacheData: true
    default: false
    }
  }

  // MARK: Endings

  private func finish(_ number: UInt64, _ response: Response?, _ image: EncodedImage?, _ error: (any Error)?) {
    let (isWanted, cache) = state.withLock { ($0.machine.isWanted(number), $0.cache) }
    // Kept before the download is over, so that nobody asks again in between. What was cancelled is not kept.
    if let image, isWanted, let response { keep(image, of: response, number, cache) }
    // The delegate goes outside the lock: what it holds may be somebody else's.
    let (handlers, next, _) = state.withLock { state in
      state.tasks[number] = nil
      let ending = state.machine.finish(number)
      return (
        ending.handlers, ending.next.flatMap { state.tasks[$0] }, state.delegates.removeValue(forKey: number)
      )
    }
    for handler in handlers {
      handler.deliver(
        image.map { .success(DownloadedImage(request: handler.request, response: response, image: $0)) }
          ?? .failure(error ?? Self.cancellation(handler.request)))
    }
    next?.resume()
  }

  private func keep(
    _ image: EncodedImage, of response: Response, _ number: UInt64, _ cache: (any ImageRequestCache)?
  ) {
    let (found, delegate) = state.withLock { ($0.tasks[number], $0.delegates[number]) }
    // A part is no answer for the whole (RFC 9111 section 3.3).
    guard let cache, let task = found, response.statusCode != 206 else { return }
    let request = task.originalRequest
    // Interceptors may have said who asks; redirects may have led to where nobody is told.
    let current = task.currentRequest
    let adapted = delegate?.attempts.withLock { $0.sent } ?? request
    guard isOfURL(request), isOfURL(adapted), isOfURL(current),
      !response.redirects.contains(where: { transport.namesUser($0.requestHead, of: current) }),
      cache.shouldCache(image, for: request, additionalIdentifier: nil)
    else { return }
    cache.add(image, for: request, additionalIdentifier: nil)
  }

  func cancel(_ receipt: ImageDownloadReceipt) {
    let cancelled = state.withLock { state -> (Handler, DataTask?)? in
      guard let (handler, isGivenUp) = state.machine.cancel(receipt.number, of: receipt.download) else { return nil }
      return (handler, isGivenUp ? state.tasks[receipt.download] : nil)
    }
    guard let (handler, task) = cancelled else { return }
    task?.cancel()
    handler.deliver(.failure(Self.cancellation(handler.request)))
  }

  static func cancellation(_ request: Request) -> SessionError {
    SessionError(
      .cancelled, phase: .total, message: "ImageDownloader cancelled URL request: \(request.urlString)",
      failingURL: request.urlString)
  }

  /// Fails what is under way and frees the session.
  func close() {
    let (handlers, tasks, _) = state.withLock { state in
      defer {
        state.tasks = [:]
        state.delegates = [:]
      }
      return (state.machine.close(), Array(state.tasks.values), state.delegates)
    }
    for handler in handlers { handler.deliver(.failure(Self.cancellation(handler.request))) }
    for task in tasks { task.cancel() }
    transport.shutDown()
  }
}
