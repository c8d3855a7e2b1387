internal import LupineSession
internal import LupineTesting

/// The file of `--har`: tried before anything is sent, so that a path that cannot be written is told at once; written at the end, until when what
/// was there stays.
struct ArchiveFile: Sendable {
  private let file: WholeFile
  private let recorder: ArchiveRecorder
  private let showsSecrets: Bool

  /// - Parameter secretNames: of fields that are secrets besides the known ones, and those that the requests mark.
  init(_ path: String, showsSecrets: Bool, secretNames: Set<String> = []) throws(System.Failure) {
    file = try WholeFile(path)
    recorder = ArchiveRecorder(sensitiveFields: secretNames)
    self.showsSecrets = showsSecrets
  }

  /// The network, recorded; several may share the file.
  func transport(_ configuration: SessionConfiguration) throws(SessionError) -> any Transport {
    RecordingTransport(try NetworkTransport(configuration), recorder: recorder)
  }

  private func write() async throws {
    // What was let go of ends soon, and not at once; a second is enough for all that is not stuck.
    for _ in 0..<500 where recorder.unfinishedCount > 0 { try? await Task.sleep(for: .milliseconds(2)) }
    var archive = await recorder.archive()
    archive.creator = HTTPArchive.Creator(name: "lupine", version: "0.1")
    try file.write(archive.json(redactingSecrets: !showsSecrets))
  }

  /// Does some work and writes the archive, if there is one, whatever came of the work. Its failure is worth more than that of the file,
  /// which is told before it.
  static func writing(_ archive: ArchiveFile?, _ work: () async throws -> Void) async throws {
    do {
      try await work()
    } catch {
      do {
        try await archive?.write()
      } catch let loss {
        System.tell(loss: loss)
      }
      throw error
    }
    try await archive?.write()
  }
}
