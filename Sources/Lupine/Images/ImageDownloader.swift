public import Dispatch
public import Foundation
internal import LupineBase
public import LupineSession

/// Downloads images, a few at a time, each only once however many ask for it at the same time, and keeps them in memory.
///
/// Any thread. Completion handlers are called on `completionQueue`; the `async` face uses no queue. When the last reference to a downloader
/// goes, what it has under way fails with `.cancelled`, and the session that it made is closed; one that it was given is left alone.
///
/// Source: `AFImageDownloader`. Changed: requests for a URL are one download only if method, fields, the use of cookies and cache policy are the same too, and one
/// with a body, or with a user of its own (`Request.credential`, or in the URL), is apart; what waits for its turn takes no place when it is cancelled (#3469);
/// a body that is not an image is an error; every handler gets its own request back.
public final class ImageDownloader: Sendable {
  /// What a completion handler is given: the image, or `SessionError` or `SerializationError`.
  public typealias Completion = @Sendable (Result<DownloadedImage, any Error>) -> Void

  /// One for the whole process, with everything at its default.
  ///
  /// Traps, with a message, if its session cannot be made because the process has no descriptors or threads left.
  public static let `default`: ImageDownloader = {
    do { return try ImageDownloader() } catch { preconditionFailure("the default downloader cannot be made: \(error)") }
  }()

  /// Where downloaders keep responses by themselves: 20 MiB of memory for the process. A configuration of yours may have another, with files.
  public static let defaultResponseCache = ResponseCache(memoryCapacity: 20 << 20)

  /// The configuration that a downloader has by itself: the session's default, with `Accept: image/*` and `defaultResponseCache`.
  public static var defaultConfiguration: SessionConfiguration {
    var configuration = SessionConfiguration.default
    configuration.additionalFields[.accept] = "image/*"
    configuration.responseCache = defaultResponseCache
    return configuration
  }

  /// Which of the waiting downloads begins first.
  public let prioritization: ImageDownloadPrioritization
  /// Downloads that run at the same time.
  public let maximumActiveDownloads: Int
  /// Where completion handlers are called.
  public let completionQueue: DispatchQueue
  let core: ImageDownloadCore

  /// Makes a downloader with a session of its own.
  ///
  /// - Parameters:
  ///   - configuration: of the session.
  ///   - serializer: validates responses and reads the images' headers.
  ///   - prioritization: which of the waiting downloads begins first. Default the oldest.
  ///   - maximumActiveDownloads: downloads that run at the same time, at least 1. Default 4.
  ///   - imageCache: keeps the images; nil for none. Default a new cache.
  ///   - completionQueue: where completion handlers are called. Default nil: the main queue, which a program has to run.
  /// - Throws: `SessionError`, as `Session` does.
  public convenience init(
    configuration: SessionConfiguration = ImageDownloader.defaultConfiguration,
    serializer: ImageResponseSerializer = ImageResponseSerializer(),
    prioritization: ImageDownloadPrioritization = .firstInFirstOut, maximumActiveDownloads: Int = 4,
    imageCache: (any ImageRequestCache)? = AutoPurgingImageCache(), completionQueue: DispatchQueue? = nil
  ) throws(SessionError) {
    let manager = try SessionManager(configuration: configuration)
    manager.completionQueue = DispatchQueue(label: "lupine.imagedownloader.response")
    let transport = ImageTransport(manager, serializer) {
      // Only making a new session could fail, and none is made.
      try? manager.invalidateSession(cancellingTasks: true)
    }
    self.init(transport, prioritization, maximumActiveDownloads, imageCache, completionQueue)
  }

  /// Makes a downloader with a session manager of yours, which it does not close; see `init(configuration:serializer:…)`. What is downloaded passes
  /// the manager's `completionQueue` first, for the `async` face too.
  public convenience init(
    sessionManager: SessionManager, serializer: ImageResponseSerializer = ImageResponseSerializer(),
    prioritization: ImageDownloadPrioritization = .firstInFirstOut, maximumActiveDownloads: Int = 4,
    imageCache: (any ImageRequestCache)? = AutoPurgingImageCache(), completionQueue: DispatchQueue? = nil
  ) {
    let transport = ImageTransport(sessionManager, serializer) {}
    self.init(transport, prioritization, maximumActiveDownloads, imageCache, completionQueue)
  }

  init(
    _ transport: ImageTransport, _ prioritization: ImageDownloadPrioritization, _ maximumActiveDownloads: Int,
    _ imageCache: (any ImageRequestCache)?, _ completionQueue: DispatchQueue?
  ) {
    self.prioritization = prioritization
    self.maximumActiveDownloads = max(1, maximumActiveDownloads)
    self.completionQueue = completionQueue ?? .main
    core = ImageDownloadCore(
      transport: transport, maximum: maximumActiveDownloads, prioritization: prioritization, cache: imageCache)
  }

  deinit {
    core.close()
  }

  /// Keeps the images; nil for none.
  public var imageCache: (any ImageRequestCache)? {
    get { core.cache }
    set { core.cache = newValue }
  }

  /// Downloads that hold one of the places now.
  public var activeDownloads: Int { core.running }

  // MARK: With completion handlers

  /// Gets an image: from memory, from a download that is under way for the same request, or from a new one.
  ///
  /// - Parameters:
  ///   - receiptID: the identifier of the receipt. Default a new one.
  ///   - cachePolicy: how the memory is used.
  ///   - completion: called once, on `completionQueue`, in the order of the calls that share a download.
  /// - Returns: what to cancel; nil if no download is needed or allowed.
  @discardableResult
  public func download(
    _ request: Request, receiptID: UUID = UUID(), cachePolicy: ImageCachePolicy = .useCache,
    completion: @escaping Completion
  ) -> ImageDownloadReceipt? {
    core.start(
      ImageDownloadCore.Handler(request: request, queue: completionQueue, completion: completion),
      receiptID: receiptID, policy: cachePolicy)
  }

  /// Gets the image of a URL; see `download(_:receiptID:cachePolicy:completion:)`. A URL that cannot be fetched is told to the handler as
  /// `SessionError` with `.badURL`, and gives no receipt.
  @discardableResult
  public func download(
    from url: String, receiptID: UUID = UUID(), cachePolicy: ImageCachePolicy = .useCache,
    completion: @escaping Completion
  ) -> ImageDownloadReceipt? {
    do throws(SessionError) {
      return download(
        try Request(url), receiptID: receiptID, cachePolicy: cachePolicy, completion: completion)
    } catch {
      completionQueue.async { completion(.failure(error)) }
      return nil
    }
  }

  /// Takes back one request: its handler is told `.cancelled`, others for the same image are not concerned; with the last of them the download
  /// ends too. Nothing happens if the handler was called already.
  public func cancel(_ receipt: ImageDownloadReceipt) {
    core.cancel(receipt)
  }

  // MARK: With async

  /// Gets an image, as `download(_:receiptID:cachePolicy:completion:)` does. Cancelling the Swift task takes back this one request.
  ///
  /// - Throws: `SessionError`, or `SerializationError` for a response that is not acceptable or not an image.
  public func image(for request: Request, cachePolicy: ImageCachePolicy = .useCache) async throws -> DownloadedImage {
    let cancellation = CancellationRelay<ImageDownloadReceipt> { [core] in core.cancel($0) }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let handler = ImageDownloadCore.Handler(request: request, queue: nil) { continuation.resume(with: $0) }
        guard let receipt = core.start(handler, receiptID: UUID(), policy: cachePolicy) else { return }
        cancellation.attach(receipt)
      }
    } onCancel: {
      cancellation.cancel()
    }
  }

  /// Gets the image of a URL; see `image(for:cachePolicy:)`.
  public func image(from url: String, cachePolicy: ImageCachePolicy = .useCache) async throws -> DownloadedImage {
    try await image(for: try Request(url), cachePolicy: cachePolicy)
  }
}
