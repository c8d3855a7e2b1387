import Foundation
import HTTPTypes
import Lupine
import LupineTestSupport
import LupineTesting
import Testing

/// What `AFHTTPRequestOperationManager` did.
@Suite struct HTTPRequestOperationManagerTests {
  private func withManager(_ body: (HTTPRequestOperationManager, LoopbackServer) async throws -> Void) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    var configuration = SessionConfiguration()
    configuration.cookieStorage = CookieStorage()
    configuration.credentialStorage = nil
    let manager = try HTTPRequestOperationManager(baseURL: server.url("/"), configuration: configuration)
    manager.completionQueue = DispatchQueue(label: "manager")
    try await body(manager, server)
    manager.sessionManager.session.invalidateAndCancel()
    #expect(await until { server.openConnectionCount == 0 })
  }

  private typealias Outcomes = Calls<Result<String, any Error>>

  @Test func defaults() throws {
    let manager = try HTTPRequestOperationManager()
    #expect(manager.baseURL == nil && manager.credential == nil && manager.completionQueue == nil)
    #expect(manager.requestSerializer is HTTPRequestSerializer && manager.responseSerializer is JSONResponseSerializer)
    #expect(manager.operationQueue.maxConcurrentOperationCount == OperationQueue.defaultMaxConcurrentOperationCount)
    #expect(try HTTPRequestOperationManager(baseURL: "http://localhost/v1").baseURL == "http://localhost/v1/")
  }

  @Test func getMakesAValue() async throws {
    try await withManager { manager, server in
      let outcomes = Outcomes()
      let operation = manager.get("json", parameters: ["a": "b c"]) { operation, value in
        outcomes.note(.success("\((value as? JSONValue)?["count"]?.intValue ?? 0) \(operation.isFinished)"))
      } failure: { _, error in
        outcomes.note(.failure(error))
      }
      #expect(operation != nil)
      let outcome = try await outcomes.first(1)[0].get()
      #expect(outcome == "13 true")
      #expect(server.recordedRequests.first?.target == "/json?a=b%20c")
    }
  }

  /// Each verb sends its method, and parameters where they belong.
  @Test func verbs() async throws {
    try await withManager { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      let outcomes = Outcomes()
      let success: HTTPRequestOperation.Success = { operation, _ in
        outcomes.note(.success(operation.request.method.rawValue))
      }
      let failure: HTTPRequestOperationManager.Failure = { _, error in outcomes.note(.failure(error)) }
      let parameters = ["key": "value"]
      manager.operationQueue.maxConcurrentOperationCount = 1
      manager.head("headers", parameters: parameters, success: success, failure: failure)
      manager.post("headers", parameters: parameters, success: success, failure: failure)
      manager.put("headers", parameters: parameters, success: success, failure: failure)
      manager.patch("headers", parameters: parameters, success: success, failure: failure)
      manager.delete("headers", parameters: parameters, success: success, failure: failure)
      // In any order: the values of several are made at a time. The one in which they were sent is the server's.
      let methods = try await outcomes.first(5).map { try $0.get() }
      #expect(methods.sorted() == ["DELETE", "HEAD", "PATCH", "POST", "PUT"])
      // The server answers before it reads the bodies.
      #expect(await eventually { server.recordedRequests.allSatisfy(\.bodyIsComplete) })
      let requests = server.recordedRequests
      #expect(requests.map(\.method) == ["HEAD", "POST", "PUT", "PATCH", "DELETE"])
      #expect(requests.map { $0.query("key") } == ["value", nil, nil, nil, "value"])
      #expect(requests.map(\.text) == ["", "key=value", "key=value", "key=value", ""])
    }
  }

  /// A form, with parameters before the parts that the closure adds; what the closure throws is the failure, without an operation.
  @Test func forms() async throws {
    struct NoFile: Error {}
    try await withManager { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      let outcomes = Outcomes()
      let success: HTTPRequestOperation.Success = { operation, _ in
        outcomes.note(.success(operation.request.method.rawValue))
      }
      let failure: HTTPRequestOperationManager.Failure = { _, error in outcomes.note(.failure(error)) }
      let construct: (inout MultipartFormData) throws -> Void = {
        $0.append(Data("file".utf8), name: "upload", fileName: "a.txt", mimeType: "text/plain")
      }
      manager.operationQueue.maxConcurrentOperationCount = 1
      manager.post(
        "headers", parameters: ["key": "value"], constructingBody: construct, success: success, failure: failure)
      manager.enqueue(.put, "headers", constructingBody: construct, success: success, failure: failure)
      let methods = try await outcomes.first(2).map { try $0.get() }
      #expect(methods.sorted() == ["POST", "PUT"])
      // The server answers before it reads the bodies.
      let areWhole = await eventually {
        server.recordedRequests.map(\.text).allSatisfy {
          $0.contains("name=\"upload\"; filename=\"a.txt\"") && $0.contains("\r\n\r\nfile\r\n")
        }
      }
      #expect(areWhole)
      let bodies = server.recordedRequests.map(\.text)
      #expect(bodies[0].contains("name=\"key\"\r\n\r\nvalue") && !bodies[1].contains("name=\"key\""))
      let refused = manager.post("headers", constructingBody: { _ in throw NoFile() }, success: nil, failure: failure)
      #expect(refused == nil)
      let error = try await outcomes.first(3)[2].failure
      #expect(error is NoFile)
    }
  }

  /// The manager of reachability is the process's unless another one is set, and nothing is started.
  @Test func reachability() throws {
    let manager = try HTTPRequestOperationManager()
    #expect(manager.reachabilityManager === NetworkReachabilityManager.shared)
    let own = NetworkReachabilityManager()
    manager.reachabilityManager = own
    #expect(manager.reachabilityManager === own && manager.sessionManager.reachabilityManager === own)
  }

  /// A copy asks the same, and is not begun; who is told of its end is not copied.
  @Test func operationsAreCopied() async throws {
    try await withManager { manager, server in
      let outcomes = Outcomes()
      let operation = manager.operation(with: try Request(server.url("/hello"))) { _, _ in
        outcomes.note(.success("first"))
      }
      operation.responseSerializer = StringResponseSerializer()
      operation.userInfo = ["a": 1]
      let copy = HTTPRequestOperation(copying: operation)
      #expect(copy.request.urlString == operation.request.urlString && copy.session === operation.session)
      #expect(copy.completionQueue === operation.completionQueue && copy.isReady && !copy.isFinished)
      operation.start()
      #expect(try await outcomes.first(1)[0].get() == "first")
      copy.setCompletion(
        success: { _, value in outcomes.note(.success(value as? String ?? "")) },
        failure: { _, error in outcomes.note(.failure(error)) })
      copy.start()
      #expect(try await outcomes.first(2)[1].get() == "Hello, world!")
      #expect(server.requestCount == 2)
    }
  }

  @Test func failures() async throws {
    try await withManager { manager, _ in
      let outcomes = Calls<(Int?, any Error)>()
      let failure: HTTPRequestOperationManager.Failure = { outcomes.note(($0?.response?.statusCode, $1)) }
      manager.get("status?code=404", success: nil, failure: failure)
      #expect(try await outcomes.first(1)[0].0 == 404)
      #expect(manager.get("http://[", success: nil, failure: failure) == nil, "no request, no operation")
      let (status, error) = try await outcomes.first(2)[1]
      #expect(status == nil && (error as? SessionError)?.code == .badURL)
    }
  }

  /// Operations get the manager's settings, and are not in its queue unless a verb puts them there.
  @Test func operationsGetTheSettings() async throws {
    try await withManager { manager, server in
      manager.credential = .password(user: "u", password: "p", persistence: .none)
      manager.completionGroup = DispatchGroup()
      manager.responseSerializer = HTTPResponseSerializer()
      let operation = manager.operation(with: try Request(server.url("/basic-auth?user=u&password=p")))
      #expect(operation.credential == manager.credential && operation.completionQueue === manager.completionQueue)
      #expect(
        operation.completionGroup === manager.completionGroup && operation.session === manager.sessionManager.session)
      #expect(manager.operationQueue.operationCount == 0 && operation.isReady)
      operation.start()
      #expect(await until { operation.isFinished } && operation.response?.statusCode == 200)
    }
  }

  /// The operations outlive their manager, and what they were made with goes with them.
  @Test func droppedManager() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let outcomes = Outcomes()
    var manager: HTTPRequestOperationManager? = try HTTPRequestOperationManager(baseURL: server.url("/"))
    manager?.completionQueue = DispatchQueue(label: "manager")
    weak let observed = manager
    for _ in 1...3 {
      manager?.get("json") { _, _ in
        outcomes.note(.success("ok"))
      } failure: {
        outcomes.note(.failure($1))
      }
    }
    manager = nil
    #expect(observed == nil)
    #expect(try await outcomes.first(3).allSatisfy { $0.success == "ok" })
    #expect(await until { server.openConnectionCount == 0 })
  }

  /// Where nobody is to be told, a queue that nobody serves holds no session.
  @Test func unservedQueuesHoldNoSession() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let queue = DispatchQueue(label: "held")
    queue.suspend()
    defer { queue.resume() }
    var manager: HTTPRequestOperationManager? = try HTTPRequestOperationManager(baseURL: server.url("/"))
    manager?.completionQueue = queue
    let begun = manager?.get("json")
    let operation = try #require(begun)
    #expect(await until { operation.isFinished })
    #expect(operation.response?.statusCode == 200 && operation.error == nil)
    manager = nil
    #expect(await until { server.openConnectionCount == 0 })
  }
}
