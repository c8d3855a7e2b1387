internal import HTTPTypes
internal import LupineBase
internal import LupineRules
public import LupineSession
internal import Synchronization

/// One place for an image, filled by requests of which the latest counts: what an image view or a button is without its window.
///
/// The receiver is called with each image, and with each placeholder. What is in memory comes at once, on the caller's thread; what is
/// downloaded comes on the downloader's completion queue. A download of a request that was superseded or cancelled reports nothing. Who asks the place
/// from within the receiver supersedes the request whose placeholder is shown. Use it on that queue, as views are used on the main thread: a download that
/// ends while another thread supersedes it may hand out its image behind that call.
///
/// Source: `UIImageView+AFNetworking`, `UIButton+AFNetworking`. Changed: a URL that cannot be fetched supersedes a download too; a second request
/// for what is being downloaded gets the image instead of being ignored; one for what is being fetched anew waits for that; a policy is obeyed when
/// looking into the memory.
public final class ImageRequestSlot: Sendable {
  /// What is done with an image, or with a placeholder, nil for none.
  public typealias Receiver = @Sendable (EncodedImage?) -> Void

  private struct Active {
    var key: String
    /// The URL of an image for everybody that is fetched anew; nil for any other.
    var reloadedURL: String?
    /// Of the request, not of the receipt: the image may be there before the receipt is.
    var number: UInt64
    var receipt: ImageDownloadReceipt?
    var completion: ImageDownloader.Completion?
  }

  private struct State {
    /// Of the latest call, if of any.
    var active: Active?
    /// Of the latest call that asked for another image or for none.
    var lastNumber: UInt64 = 0
  }

  /// Where the images come from.
  public let downloader: ImageDownloader
  private let receive: Receiver
  private let state = LockedStorage(State())

  /// Makes an empty place.
  ///
  /// - Parameters:
  ///   - downloader: default the one of the process.
  ///   - receive: called with what is to be shown; may be called on any thread.
  public init(downloader: ImageDownloader = .default, receive: @escaping Receiver) {
    self.downloader = downloader
    self.receive = receive
  }

  deinit {
    if let receipt = state.withLock({ $0.active?.receipt }) { downloader.cancel(receipt) }
  }

  /// The receipt of the download under way; nil if there is none.
  public var activeReceipt: ImageDownloadReceipt? { state.withLock { $0.active?.receipt } }

  /// Asks for the image of a URL, with `Accept: image/*`.
  ///
  /// - Parameters:
  ///   - placeholder: shown until then; nil leaves what is shown, except for a URL that cannot be fetched: then the place is cleared.
  ///   - completion: called instead of the receiver when the request is over; nil for the receiver to get the image, and for nobody to hear of a
  ///     failure.
  public func setImage(
    from url: String, placeholder: EncodedImage? = nil, completion: ImageDownloader.Completion? = nil
  ) {
    do throws(SessionError) {
      var request = try Request(url)
      request.fields[.accept] = "image/*"
      setImage(for: request, placeholder: placeholder, completion: completion)
    } catch {
      let number = supersede()
      receive(placeholder)
      if state.withLock({ $0.lastNumber == number }) { completion?(.failure(error)) }
    }
  }

  /// Asks for the image of a request; see `setImage(from:placeholder:completion:)`.
  public func setImage(
    for request: Request, placeholder: EncodedImage? = nil, cachePolicy: ImageCachePolicy = .useCache,
    completion: ImageDownloader.Completion? = nil
  ) {
    let key = ImageDownloadCore.key(request, cachePolicy)
    let url = request.parsedURL.identity
    let mayComeFromMemory = cachePolicy != .reload && downloader.core.mayComeFromMemory(request)
    let mayJoinReload = mayComeFromMemory && request.cachePolicy != .returnCacheDataDontLoad
    if let key, joined(key, mayJoinReload ? url : nil, completion) { return }
    let number = supersede()
    if mayComeFromMemory,
      let image = downloader.imageCache?.image(for: request, additionalIdentifier: nil)
    {
      return finish(completion, .success(DownloadedImage(request: request, response: nil, image: image)))
    }
    if let placeholder { receive(placeholder) }
    let isReload = cachePolicy == .reload || ImageDownloadCore.isReload(request)
    let reloadedURL = isReload && key != nil && downloader.core.isOfURL(request) ? url : nil
    let isLatest = state.withLock { state in
      guard state.lastNumber == number else { return false }
      state.active = Active(
        key: key ?? "", reloadedURL: reloadedURL, number: number, receipt: nil, completion: completion)
      return true
    }
    // Called since then, by the receiver or on another thread: that call counts.
    guard isLatest else { return }
    let receipt = downloader.download(request, cachePolicy: cachePolicy) { [weak self] result in
      self?.end(number, result)
    }
    guard let receipt else { return }
    // Over or superseded in between: then nobody else knows of this receipt, and to cancel one that is over does nothing.
    let isCurrent = state.withLock { state in
      guard state.active?.number == number else { return false }
      state.active?.receipt = receipt
      return true
    }
    if !isCurrent { downloader.cancel(receipt) }
  }

  /// Gives up the download under way: nobody hears of it any more. What is shown stays.
  public func cancel() {
    _ = supersede()
  }

  /// Gives up the download under way, for a later call, whose number is returned: before the caller's code is called, which may call again.
  private func supersede() -> UInt64 {
    // All of it comes out of the lock: the completion may hold the last reference to somebody who cancels when it goes.
    let (number, given) = state.withLock { state -> (UInt64, Active?) in
      let given = state.active
      state.active = nil
      state.lastNumber += 1
      return (state.lastNumber, given)
    }
    if let receipt = given?.receipt { downloader.cancel(receipt) }
    return number
  }

  /// Whether the same is being downloaded: the latest completion, or its absence, is what counts.
  ///
  /// - Parameter url: of a request that what is in memory would do for; the image that takes its place there does, too.
  private func joined(_ key: String, _ url: String?, _ completion: ImageDownloader.Completion?) -> Bool {
    let (isJoined, former) = state.withLock { state -> (Bool, ImageDownloader.Completion?) in
      guard let active = state.active, active.key == key || (url != nil && active.reloadedURL == url) else {
        return (false, nil)
      }
      state.active?.completion = completion
      return (true, active.completion)
    }
    // Let go of outside of the lock, as in `cancel`.
    withExtendedLifetime(former) {}
    return isJoined
  }

  private func end(_ number: UInt64, _ result: Result<DownloadedImage, any Error>) {
    let ended = state.withLock { state -> Active? in
      guard state.active?.number == number else { return nil }
      defer { state.active = nil }
      return state.active
    }
    if let ended { finish(ended.completion, result) }
  }

  private func finish(_ completion: ImageDownloader.Completion?, _ result: Result<DownloadedImage, any Error>) {
    if let completion { return completion(result) }
    if case .success(let download) = result { receive(download.image) }
  }
}

/// A place for each key: of a button, its states, and its image and background apart. Source: `UIButton+AFNetworking`.
public final class ImageRequestSlots<Key: Hashable & Sendable>: Sendable {
  /// What is done with an image of a key.
  public typealias Receiver = @Sendable (Key, EncodedImage?) -> Void

  /// Where the images come from.
  public let downloader: ImageDownloader
  private let receive: Receiver
  private let slots = Locked<[Key: ImageRequestSlot]>([:])

  /// Makes empty places; see `ImageRequestSlot`.
  public init(downloader: ImageDownloader = .default, receive: @escaping Receiver) {
    self.downloader = downloader
    self.receive = receive
  }

  /// The place of a key, made when first asked for.
  public subscript(key: Key) -> ImageRequestSlot {
    slots.withLock { slots in
      if let slot = slots[key] { return slot }
      let slot = ImageRequestSlot(downloader: downloader) { [receive] in receive(key, $0) }
      slots[key] = slot
      return slot
    }
  }

  /// Gives up all downloads.
  public func cancelAll() {
    for slot in slots.withLock({ Array($0.values) }) { slot.cancel() }
  }
}
