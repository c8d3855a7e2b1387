public import Foundation
internal import LupineIO
internal import LupineSession
internal import LupineWire

extension MultipartFormData {
  /// Adds a file under its own name, with the media type of its extension. Source: `appendPartWithFileURL:name:error:`.
  ///
  /// The length of the file is taken now, its bytes are read when the form is sent.
  ///
  /// - Throws: `SerializationError`: `.notFileURL`; `.fileNotReachable` for what is not there, cannot be read or is no regular file. The form
  ///   stays as it was.
  public mutating func append(fileURL: URL, name: String) throws(SerializationError) {
    try append(
      fileURL: fileURL, name: name, fileName: fileURL.lastPathComponent,
      mimeType: MediaTypes.type(ofExtension: fileURL.pathExtension))
  }

  /// Adds a file under another name. Source: `appendPartWithFileURL:name:fileName:mimeType:error:`.
  ///
  /// - Throws: as `append(fileURL:name:)`.
  public mutating func append(
    fileURL: URL, name: String, fileName: String, mimeType: String
  ) throws(SerializationError) {
    guard fileURL.isFileURL else {
      throw SerializationError(
        .notFileURL, message: "Expected URL to be a file URL", failingURL: fileURL.scheme.map { "\($0):" })
    }
    // Not decoded: a separator in a name that was escaped as one component would lead elsewhere.
    let path = fileURL.path
    let size = try Self.size(of: path, fileURL)
    append(
      MultipartPartHead(name: name, fileName: fileName, mediaType: mimeType),
      .file(path: path, offset: 0, length: size, fileSize: size))
  }

  private static func size(of path: String, _ url: URL) throws(SerializationError) -> Int64 {
    var cause: (any Error)?
    do throws(IOError) {
      // The system would end the path at a NUL.
      if !path.utf8.contains(0), let size = try File.open(path).size() { return size }
    } catch {
      cause = error
    }
    throw SerializationError(
      .fileNotReachable,
      message: cause.map { "File URL not reachable: \($0)" } ?? "File URL not reachable: it is no regular file",
      failingURL: url.absoluteString, underlying: cause)
  }
}

extension SerializationError.Code {
  /// A part of a form is to be a file, and the URL is none of a file. Source: `NSURLErrorBadURL` of AFNetworking's request domain.
  public static let notFileURL = SerializationError.Code(rawValue: "notFileURL")
  /// The file of a part is not there, cannot be read or is no regular file. Source: `NSURLErrorBadURL` of AFNetworking's request domain.
  public static let fileNotReachable = SerializationError.Code(rawValue: "fileNotReachable")
  /// A header of a part would break the form.
  public static let invalidPartHeader = SerializationError.Code(rawValue: "invalidPartHeader")
  /// What is to separate the parts is no boundary (RFC 2046 section 5.1.1).
  public static let invalidBoundary = SerializationError.Code(rawValue: "invalidBoundary")
}
