import Foundation
import LupineBase
import LupineSession
import LupineTesting
import Testing

@testable import Lupine

/// Moments that a downloader cannot choose.
@Suite(.timeLimit(.minutes(1))) struct ImageDownloadCoreTests {
  /// A download that has ended before it was noted, as one may that begins in the place of another, brings its image.
  @Test func anImageThatIsThereAtOnce() async throws {
    let service = try ImageService()
    defer { service.server.shutdown() }
    let manager = try SessionManager(configuration: .ephemeral)
    var transport = ImageTransport(manager, ImageResponseSerializer()) {}
    let make = transport.makeTask
    let isHeld = DispatchSemaphore(value: 0)
    transport.makeTask = { request, completion in
      let task = make(request) { response, image, error in
        // Not before the download is noted.
        isHeld.wait()
        completion(response, image, error)
      }
      task.resume()
      while task.state != .completed { sched_yield() }
      return task
    }
    let core = ImageDownloadCore(transport: transport, maximum: 1, prioritization: .firstInFirstOut, cache: nil)
    let calls = Calls<Result<DownloadedImage, any Error>>()
    let handler = ImageDownloadCore.Handler(request: try service.request("/image?w=3&h=4"), queue: nil) {
      calls.note($0)
    }
    // It waits for the task, on none of the threads that tasks of Swift run on.
    let receipt = await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        continuation.resume(returning: core.start(handler, receiptID: UUID(), policy: .reload))
      }
    }
    #expect(receipt != nil)
    isHeld.signal()
    #expect(try await calls.first(1)[0].get().image.pixelHeight == 4)
    #expect(await until { core.running == 0 })
    try manager.invalidateSession(cancellingTasks: true)
  }
}
