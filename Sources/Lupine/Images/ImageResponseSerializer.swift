public import Foundation
public import LupineSession

/// Validates a response and reads the header of the image in it.
///
/// Status 200 to 299 and an acceptable media type are asked for, and then the bytes themselves must begin as an image does: what the server
/// calls it decides nothing more. Pixels are not decoded.
///
/// Source: `AFImageResponseSerializer`. Changed: more media types are acceptable, see `defaultContentTypes`; a body that is no image is an error
/// and not a success without an image.
public struct ImageResponseSerializer: HTTPResponseSerializing, Codable {
  /// AFNetworking's media types, and `image/webp`, `image/apng`, `image/vnd.microsoft.icon`, `image/x-ms-bmp`; the usual misnomers `image/jpg`,
  /// `image/pjpeg` and `image/x-png`; and what stores of files call a file that they were told nothing of, `application/octet-stream` and `binary/octet-stream`.
  public static let defaultContentTypes: Set<String> = [
    "image/tiff", "image/jpeg", "image/gif", "image/png", "image/ico", "image/x-icon", "image/bmp", "image/x-bmp",
    "image/x-xbitmap", "image/x-win-bitmap", "image/webp", "image/apng", "image/vnd.microsoft.icon",
    "image/x-ms-bmp", "image/jpg", "image/pjpeg", "image/x-png", "application/octet-stream", "binary/octet-stream",
  ]

  /// Which responses are acceptable. Default 200 to 299, and `defaultContentTypes`.
  public var validation: ResponseValidation
  /// Pixels per point of the images. Default 1. Source: `imageScale`.
  public var imageScale: Double

  /// Makes a serializer.
  ///
  /// - Parameters:
  ///   - imageScale: pixels per point of the images.
  ///   - acceptableContentTypes: media types without parameters, in lower case; nil for any.
  public init(imageScale: Double = 1, acceptableContentTypes: Set<String>? = Self.defaultContentTypes) {
    self.imageScale = imageScale
    validation = ResponseValidation()
    validation.acceptableContentTypes = acceptableContentTypes
  }

  /// The image of a response.
  ///
  /// - Throws: `SerializationError`: `.unacceptableStatusCode` or `.unacceptableContentType`, with the image as `value` if the body is one all the
  ///   same; `.cannotParseResponse` if it is none, or empty.
  public func serialize(_ response: Response?, data: Data?) throws -> EncodedImage {
    if var error = validation.validate(response, data: data) {
      error.value = try? EncodedImage(data: data ?? Data(), scale: imageScale)
      throw error
    }
    do throws(SerializationError) {
      return try EncodedImage(data: data ?? Data(), scale: imageScale)
    } catch {
      var error = error
      error.response = response
      error.failingURL = response?.urlString
      throw error
    }
  }
}
