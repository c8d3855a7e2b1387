internal import LupineRules

/// Oracle: an image has pixels, and its magic number is that of its format; a fault lies within the bytes or at their end, and more are
/// needed than there are; a shorter file says the same of the image or is truncated, and a longer one differs only in frames counted and an
/// orientation found.
package enum ImageHeaderFuzz {
  package static func run(bytes: [UInt8]) {
    let whole = read(bytes[...])
    switch whole {
    case .success(let header):
      precondition(header.width > 0 && header.height > 0 && header.pixelBytes >= 4, "an image without pixels")
      precondition(header.frameCount.map { $0 > 0 } ?? true, "no frames")
      precondition(header.orientation.map { (1...8).contains($0) } ?? true, "no such orientation")
      precondition((try? ImageHeader.format(of: bytes.span)) == header.format, "the format differs")
    case .failure(let error): check(error, bytes)
    }
    for length in Set([0, 1, bytes.count / 4, bytes.count / 2, bytes.count - 1])
    where (0..<bytes.count).contains(length) {
      switch (read(bytes.prefix(length)), whole) {
      case (.success(let part), .success(let header)):
        precondition(part.frameCount == nil || part.frameCount == header.frameCount, "more bytes changed the frames")
        precondition(
          part.orientation == nil || part.orientation == header.orientation, "more bytes changed the orientation")
        var completed = part
        completed.frameCount = header.frameCount
        completed.orientation = header.orientation
        precondition(completed == header, "more bytes changed the image")
      case (.success, .failure): preconditionFailure("more bytes made an image none")
      case (.failure(let error), .success):
        precondition(isEarlyEnd(error), "fewer bytes are wrong instead of truncated")
      case (.failure(let error), .failure(let other)):
        precondition(isEarlyEnd(error) || error == other, "more bytes changed the fault")
      }
    }
  }

  private static func check(_ error: ImageHeaderError, _ bytes: [UInt8]) {
    if case .truncated(let needed) = error.reason {
      precondition(error.offset == bytes.count && needed > bytes.count, "nothing more is needed")
    } else {
      precondition(error.offset <= bytes.count, "the fault lies outside")
    }
    precondition(!"\(error)".isEmpty)
  }

  private static func isEarlyEnd(_ error: ImageHeaderError) -> Bool {
    switch error.reason {
    case .truncated, .empty: true
    default: false
    }
  }

  private static func read(_ bytes: ArraySlice<UInt8>) -> Result<ImageHeader, ImageHeaderError> {
    do throws(ImageHeaderError) {
      return .success(try ImageHeader.read(bytes.span))
    } catch {
      return .failure(error)
    }
  }
}
