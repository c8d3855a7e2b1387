internal import LupineRules
public import LupineSession

/// Images kept under names.
///
/// Any thread; what was added is found by the next look-up. Source: `AFImageCache`.
public protocol ImageCache: Sendable {
  /// Keeps an image, instead of the one that had this name.
  func add(_ image: EncodedImage, withIdentifier identifier: String)
  /// Forgets an image; says whether there was one.
  @discardableResult func removeImage(withIdentifier identifier: String) -> Bool
  /// Forgets all images; says whether there were any.
  @discardableResult func removeAllImages() -> Bool
  /// The image of this name.
  func image(withIdentifier identifier: String) -> EncodedImage?
}

/// Images kept for requests, and for what was made of them: the additional identifier may name a filter or a size.
///
/// Source: `AFImageRequestCache`.
public protocol ImageRequestCache: ImageCache {
  /// Whether a downloaded image is to be kept.
  func shouldCache(_ image: EncodedImage, for request: Request, additionalIdentifier: String?) -> Bool
  /// Keeps the image of a request.
  func add(_ image: EncodedImage, for request: Request, additionalIdentifier: String?)
  /// Forgets the image of a request; says whether there was one.
  @discardableResult func removeImage(for request: Request, additionalIdentifier: String?) -> Bool
  /// The image of a request.
  func image(for request: Request, additionalIdentifier: String?) -> EncodedImage?
}

extension ImageRequestCache {
  /// The name of a request's image: its URL without a fragment, and behind a space, which no URL has, the additional identifier. Method, fields and body do not
  /// count, nor does a user: `ImageDownloader` neither keeps nor looks up the images of requests that name one, have a body or
  /// another method than GET.
  public static func identifier(for request: Request, additionalIdentifier: String?) -> String {
    let url = request.parsedURL.identity
    return additionalIdentifier.map { "\(url) \($0)" } ?? url
  }

  /// Yes.
  public func shouldCache(_ image: EncodedImage, for request: Request, additionalIdentifier: String?) -> Bool { true }

  /// Keeps the image under `identifier(for:additionalIdentifier:)`.
  public func add(_ image: EncodedImage, for request: Request, additionalIdentifier: String? = nil) {
    add(image, withIdentifier: Self.identifier(for: request, additionalIdentifier: additionalIdentifier))
  }

  /// Forgets the image under `identifier(for:additionalIdentifier:)`.
  @discardableResult
  public func removeImage(for request: Request, additionalIdentifier: String? = nil) -> Bool {
    removeImage(withIdentifier: Self.identifier(for: request, additionalIdentifier: additionalIdentifier))
  }

  /// The image under `identifier(for:additionalIdentifier:)`.
  public func image(for request: Request, additionalIdentifier: String? = nil) -> EncodedImage? {
    image(withIdentifier: Self.identifier(for: request, additionalIdentifier: additionalIdentifier))
  }
}
