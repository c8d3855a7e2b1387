internal import Foundation
internal import LupineSession

/// How a download is put into its place. Default of every manager's call: none of these, as in AFNetworking.
public struct DownloadOptions: OptionSet, Sendable, Hashable {
  /// The bits.
  public let rawValue: UInt8

  /// Makes options of their bits.
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Replace a file that is there, in one step. Without it, a file that is there is an error.
  public static let overwriteExisting = DownloadOptions(rawValue: 1)
  /// Make the directories of the path that are missing. Without it, a missing one is an error.
  public static let createIntermediateDirectories = DownloadOptions(rawValue: 2)

  /// Moves a finished download; blocks for as long as the disk does.
  func move(_ path: String, to destination: URL) throws(SessionError) {
    guard destination.isFileURL else {
      throw SessionError(
        .fileFailed, phase: .file, message: "a download goes to a file, not to \(destination.absoluteString)")
    }
    if contains(.createIntermediateDirectories) {
      let folder = destination.deletingLastPathComponent()
      do {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
      } catch {
        throw SessionError(
          .fileFailed, phase: .file, message: "the directory \(folder.path) cannot be made: \(error)", underlying: error
        )
      }
    }
    try FinishedFile.move(path, to: destination.path, overwriting: contains(.overwriteExisting))
  }
}
