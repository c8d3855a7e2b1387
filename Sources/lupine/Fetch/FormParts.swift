internal import Foundation
internal import Lupine

/// The parts of a multipart form, from arguments and lines of a batch.
struct FormParts: Sendable {
  private var form = MultipartFormData()

  var contentType: String { form.contentType }
  var body: Request.Body { form.body }

  /// A field.
  mutating func add(name: String, value: [UInt8]) {
    form.append(Data(value), name: name)
  }

  /// A file, whose size is taken now; "-" is standard input, which makes the form one that is sent in chunks, and once.
  ///
  /// - Parameters:
  ///   - fileName: nil: its own.
  ///   - type: its media type; nil: by its extension.
  mutating func add(name: String, path: String, fileName: String? = nil, type: String? = nil) throws {
    let type = type ?? MediaTypes.type(of: path)
    guard !type.contains(where: { $0.isNewline }) else { throw CommandFailure.misuse("a media type has no line ends") }
    guard path != "-" else {
      return form.append(
        stream: { BodyStream(SegmentedBody([.standardInput])) }, length: nil, isReplayable: false, name: name,
        fileName: fileName ?? "-", mimeType: type)
    }
    guard try InputFile(path, waits: false).size != nil else {
      throw CommandFailure.misuse("\(path) is no regular file")
    }
    // A URL of the path itself would have `~` lead home, and `..` to where no link leads.
    let file = URL(filePath: FileSystem.resolved(path))
    do {
      try form.append(fileURL: file, name: name, fileName: fileName ?? FileSystem.name(of: path), mimeType: type)
    } catch {
      throw CommandFailure.misuse("cannot read \(path): \(error.message)")
    }
  }
}

/// Media types by file name.
enum MediaTypes {
  static let form = "application/x-www-form-urlencoded; charset=utf-8"

  static func type(of path: String) -> String { Lupine.MediaTypes.type(ofFile: path) }
}
