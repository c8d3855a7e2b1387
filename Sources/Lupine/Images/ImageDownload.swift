public import Foundation
public import LupineSession

/// What a download of an image gives.
public struct DownloadedImage: Sendable {
  /// The request as it was given.
  public var request: Request
  /// The response; nil if the image is from the memory cache.
  public var response: Response?
  /// The image.
  public var image: EncodedImage

  /// A result, for stand-ins of a downloader.
  public init(request: Request, response: Response?, image: EncodedImage) {
    self.request = request
    self.response = response
    self.image = image
  }
}

/// One request for an image, which can be cancelled by it. The task may serve other receipts too.
///
/// Source: `AFImageDownloadReceipt`.
public struct ImageDownloadReceipt: Sendable, Hashable {
  /// The identifier given with the request, or a new one.
  public let receiptID: UUID
  /// The task: of all requests that were one with this. Cancel the receipt and not the task.
  public let task: DataTask
  let download: UInt64
  let number: UInt64
}

/// How a request for an image uses the memory cache. What is downloaded is kept in it whatever this says.
public enum ImageCachePolicy: Sendable, Hashable {
  /// Take the image from memory, or else download it. Default. Source: `NSURLRequestUseProtocolCachePolicy`, `…ReturnCacheDataElseLoad`.
  case useCache
  /// Take the image from memory, or fail with `SessionError` and `.imageNotCached`. Source: `NSURLRequestReturnCacheDataDontLoad`.
  case onlyCache
  /// Download the image, past the session's `responseCache` too. Source: `NSURLRequestReloadIgnoringLocalCacheData`.
  case reload
}

extension SessionError.Code {
  /// The image is not in memory, and `ImageCachePolicy.onlyCache` forbids to download it.
  public static let imageNotCached = SessionError.Code(rawValue: "imageNotCached")
}
