import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// `async` downloads with a delegate: it hears of the bytes, and of going on; all of it before the call returns.
@Suite(.timeLimit(.minutes(2))) struct AsyncDownloadDelegateTests {
  private final class Listener: SessionDownloadDelegate {
    let written = Locked<[[Int64]]>([])
    let resumed = Locked<[[Int64]]>([])
    let misplaced = Locked(0)
    var handledCallbacks: CallbackSet { [.wroteData, .resumedAtOffset, .finishedDownload] }

    func session(
      _ session: Session, downloadTask: DownloadTask, didWriteData bytesWritten: Int64, totalBytesWritten: Int64,
      totalBytesExpectedToWrite: Int64?
    ) {
      written.withLock { $0.append([bytesWritten, totalBytesWritten, totalBytesExpectedToWrite ?? -1]) }
    }

    func session(
      _ session: Session, downloadTask: DownloadTask, didResumeAtOffset fileOffset: Int64, expectedTotalBytes: Int64?
    ) {
      resumed.withLock { $0.append([fileOffset, expectedTotalBytes ?? -1]) }
    }

    func session(_ session: Session, downloadTask: DownloadTask, didFinishDownloadingTo path: String) {
      misplaced.withLock { $0 += 1 }
    }
  }

  @Test func delegateHearsOfBytesAndOffsets() async throws {
    let files = FileServer(FileServer.File(size: 300_000), [.cut(100_000)])
    let directory = try ScratchDirectory()
    let destination = DownloadDestination(path: directory.path + "/file")
    try await withServer([files.route]) { session, server in
      let request = try Request(server.url("/file"))
      let first = Listener()
      let error = try await failure { try await session.download(for: request, to: destination, delegate: first) }
      let resumeData = try #require(error.resumeData)
      let offset = resumeData.receivedBytes
      #expect(first.written.withLock { $0.last?[1] } == offset && first.resumed.withLock { $0.isEmpty })
      let second = Listener()
      let progress = Locked<Int64>(0)
      _ = try await session.download(resumeFrom: resumeData, to: destination, delegate: second) { received, _ in
        progress.withLock { $0 = received }
      }
      #expect(second.resumed.withLock { $0 } == [[offset, 300_000]])
      let steps = second.written.withLock { $0 }
      #expect(steps.last == [steps.last?.first ?? 0, 300_000, 300_000])
      #expect(steps.reduce(0) { $0 + $1[0] } == 300_000 - offset)
      #expect(progress.withLock { $0 } == 300_000)
      // The file is the call's.
      #expect(second.misplaced.withLock { $0 } == 0)
      #expect(PatternBody.matches(TextFile.bytes(directory.path + "/file"), from: 0))
    }
  }

  /// Who keeps the handle of a download that is over keeps neither its file open, whose space could not be had again, nor the folder.
  @Test(arguments: [(true, 0), (false, 1)]) func aHandleKeepsNoFileOpen(_ isWhole: Bool, _ left: Int) async throws {
    let files = FileServer(FileServer.File(size: 300_000), isWhole ? [] : [.cut(100_000)])
    try await withFileServer(files, leaves: left) { session, server, folder in
      let before = DescriptorCensus.now()
      let keeper = TaskKeeper()
      let file = try? await session.download(for: Request(server.url("/file")), delegate: keeper)
      #expect((file != nil) == isWhole)
      if let file { try FileManager.default.removeItem(atPath: file.path) }
      #expect(await eventually { !before.newcomers().contains { $0.contains(" -> \(folder.parentPath)") } })
      #expect(keeper.task.withLock { $0?.state } == .completed)
    }
  }
}
