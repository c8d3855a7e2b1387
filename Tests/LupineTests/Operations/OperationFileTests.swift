import Foundation
import Lupine
import LupineBase
import LupineTesting
import Testing

/// What becomes of the files that bodies go to, and of what is made of bodies.
@Suite struct OperationFileTests {
  /// An error page for the rest is the operation's failure, and not the file's new contents.
  @Test(arguments: [401, 404, 503]) func aFailedResumptionLeavesTheFile(status: Int) async throws {
    let folder = try ScratchFolder()
    try await withOperations { service in
      let path = folder.file("body").path
      let operation = try service.operation("/parts?n=60000&version=a&fails=\(status)")
      operation.output = .file(path: path)
      let outcomes = operation.outcomes()
      let steps = Calls<Int64>()
      operation.setDownloadProgress { _, total, _ in steps.note(total) }
      operation.start()
      #expect(await until { steps.all.last == 30_000 })
      operation.pause()
      operation.resume()
      let error = try await outcomes.first(1)[0].error as? SerializationError
      #expect(error?.code == .unacceptableStatusCode && operation.response?.statusCode == status)
      let written = try Data(contentsOf: URL(filePath: path))
      #expect(written.count == 30_000 && PatternBody.matches(written, from: 0))
    }
  }

  /// In memory there is room for the error page.
  @Test func aFailedResumptionShowsItsPage() async throws {
    try await withOperations { service in
      let operation = try service.operation("/parts?n=60000&version=a&fails=503")
      let outcomes = operation.outcomes()
      operation.start()
      #expect(await until { operation.responseData?.count == 30_000 })
      operation.pause()
      operation.resume()
      _ = try await outcomes.first(1)
      #expect(operation.responseString == "no" && operation.response?.statusCode == 503)
    }
  }

  /// However long operations are kept, their files are closed when their handlers are called; also of those that fail or are cancelled.
  @Test func filesAreClosedBeforeTheEndIsTold() async throws {
    let folder = try ScratchFolder()
    try await withOperations { service in
      let open = Calls<Int>()
      let paths = ["/hello", "/status?code=404&body=x", "/parts?n=1000&version=a"]
      let operations = try paths.enumerated().map { index, path in
        let operation = try service.operation(path)
        let file = folder.file("\(index)").path
        operation.output = .file(path: file)
        operation.completionBlock = { open.note(Self.descriptors(of: file)) }
        return operation
      }
      for operation in operations { operation.start() }
      let last = folder.file("2").path
      #expect(await until { (try? Data(contentsOf: URL(filePath: last)).count) == 500 })
      #expect(Self.descriptors(of: last) == 1)
      operations[2].pause()
      operations[2].cancel()
      #expect(try await open.first(3) == [0, 0, 0])
      let areOver = operations.map { $0.isFinished }
      #expect(areOver == [true, true, true])
    }
  }

  private static func descriptors(of path: String) -> Int {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
    return names.count { (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")) == path }
  }

  /// Whoever asks, and however many at once, gets the one object.
  @Test func theResponseObjectIsMadeOnce() async throws {
    final class Made: Sendable {}
    struct Maker: ResponseSerializer {
      func serialize(_ response: Response?, data: Data?) throws -> Made { Made() }
    }
    try await withOperations { service in
      for _ in 1...10 {
        let operation = try service.operation("/hello")
        operation.responseSerializer = Maker()
        let told = Calls<Made?>()
        operation.setCompletion(success: { _, value in told.note(value as? Made) }, failure: nil)
        operation.start()
        #expect(await until { operation.isFinished })
        let seen = Locked<[ObjectIdentifier]>([])
        DispatchQueue.concurrentPerform(iterations: 8) { _ in
          guard let made = operation.responseObject as? Made else { return }
          seen.withLock { $0.append(ObjectIdentifier(made)) }
        }
        let object = try await told.first(1)[0]
        let all = seen.withLock { $0 } + [object.map { ObjectIdentifier($0) }].compactMap { $0 }
        #expect(all.count == 9 && Set(all).count == 1)
      }
    }
  }

  /// A serializer that is replaced while it works makes nothing that stays.
  @Test func aReplacedSerializerLeavesNothing() async throws {
    struct Replacing: ResponseSerializer {
      let operation: HTTPRequestOperation
      func serialize(_ response: Response?, data: Data?) throws -> String {
        operation.responseSerializer = HTTPResponseSerializer()
        return "old"
      }
    }
    try await withOperations { service in
      let operation = try service.operation("/hello")
      let outcomes = operation.outcomes()
      operation.start()
      _ = try await outcomes.first(1)
      operation.responseSerializer = Replacing(operation: operation)
      #expect(operation.responseObject as? String == "old")
      #expect(operation.responseObject is Data)
    }
  }
}
