public import Foundation
internal import LupineRules

/// An image as it came over the network, with what its header says: format and size. No pixel is decoded, so that no image library is
/// needed; hand `data` to the decoder of your choice.
///
/// A reference, so that what a cache gives out is the very image that was put in. Immutable: any thread.
///
/// Source: `UIImage` in AFNetworking's image classes.
public final class EncodedImage: Sendable {
  /// The format of an image, told by its first bytes and not by what the server called it.
  public enum Format: String, Sendable, Hashable, CaseIterable {
    /// PNG, and animated PNG.
    case png
    /// JPEG, baseline and progressive.
    case jpeg
    /// GIF.
    case gif
    /// WebP: lossy, lossless, extended.
    case webp
    /// Bitmap of Windows or OS/2.
    case bmp
    /// TIFF, in either byte order.
    case tiff
    /// Icon of Windows.
    case ico
  }

  /// The format.
  public var format: Format { Format(header.format) }
  /// Pixels across, at least 1: of the stored pixels, before `orientation` is applied. Of an icon the largest size, of a TIFF the first page.
  public var pixelWidth: Int { Int(header.width) }
  /// Pixels down, at least 1.
  public var pixelHeight: Int { Int(header.height) }
  /// Images in the file: frames of an animation, pages of a TIFF, sizes of an icon. Nil if the file ends before they are counted.
  public var frameCount: Int? { header.frameCount }
  /// How the pixels are to be turned, as in EXIF: 1 to 8; nil if the file says nothing.
  public var orientation: Int? { header.orientation }
  /// Pixels per point. Default 1.
  public let scale: Double
  /// The file.
  public let data: Data
  private let header: ImageHeader

  /// Reads the header of an image file.
  ///
  /// - Parameters:
  ///   - data: the file; only its header is looked at, so that a file cut short behind it is an image here.
  ///   - scale: pixels per point; what is not a positive number counts as 1.
  /// - Throws: `SerializationError` with `.cannotParseResponse`, whose message says what is wrong with the bytes, and at which.
  public init(data: Data, scale: Double = 1) throws(SerializationError) {
    do throws(ImageHeaderError) {
      header = try ImageHeader.read(data.span)
    } catch {
      throw SerializationError(
        .cannotParseResponse, message: "the body is not an image: \(error)", data: data, underlying: error)
    }
    self.scale = scale.isFinite && scale > 0 ? scale : 1
    self.data = data
  }

  /// Points across.
  public var width: Double { Double(pixelWidth) / scale }
  /// Points down.
  public var height: Double { Double(pixelHeight) / scale }

  /// What the decoded image takes in memory, in bytes: four for each pixel, of one frame; saturates. Source: `AFAutoPurgingImageCache`.
  public var memoryCost: Int { Int(clamping: header.pixelBytes) }
}

extension EncodedImage: CustomStringConvertible {
  /// `png 400×200, 5120 bytes`.
  public var description: String { "\(format.rawValue) \(pixelWidth)×\(pixelHeight), \(data.count) bytes" }
}

extension EncodedImage.Format {
  init(_ format: ImageFormat) {
    self =
      switch format {
      case .png: .png
      case .jpeg: .jpeg
      case .gif: .gif
      case .webp: .webp
      case .bmp: .bmp
      case .tiff: .tiff
      case .ico: .ico
      }
  }
}
