import Foundation
import Lupine
import LupineSession
import LupineTesting
import Testing

// The example of "Where the main actor is the default" in the getting-started page, word for word, in a module where it is.

nonisolated struct Account: Codable { var name: String }

nonisolated final class AccountAPI: HTTPSessionManager, @unchecked Sendable {
  func account() async throws -> Account { try await get("account") }
}

@MainActor final class AttemptCounter: RequestInterceptor {
  private(set) var attempts = 0

  @MainActor func adapt(_ request: Request, attempt: Int) async throws -> Request {
    attempts += 1
    return request
  }
}

@MainActor final class MetricsWatcher: SessionTaskDelegate {
  private(set) var statuses: [Int] = []

  nonisolated func session(_ session: Session, task: SessionTask, didFinishCollecting metrics: TaskMetrics) {
    let status = task.response?.statusCode ?? 0
    Task { @MainActor in statuses.append(status) }
  }
}

final class AccountModel {
  private(set) var name = ""
  private let api: AccountAPI

  init(_ api: AccountAPI) { self.api = api }

  func load() async throws { name = try await api.account().name }
}

/// What a program does whose default is the main actor: closures that it hands over must not be taken for the main actor's where they run elsewhere.
@Suite(.timeLimit(.minutes(1))) struct MainActorTests {
  private func withServer(_ body: (LoopbackServer) async throws -> Void) async throws {
    let json: ServerFields = ["Content-Type": "application/json"]
    let routes = ["GET", "POST"].map { method in
      ServerRoute(method, "/account") { request, connection in
        try connection.respond(200, fields: json, body: Array(#"{"name":"Ada"}"#.utf8))
      }
    }
    let server = try LoopbackServer(routes: routes)
    defer { server.shutdown() }
    try await body(server)
  }

  @Test func modelsAndInterceptors() async throws {
    try await withServer { server in
      let api = try AccountAPI(baseURL: server.url("/"))
      let counter = AttemptCounter()
      api.interceptors = [counter]
      let model = AccountModel(api)
      try await model.load()
      #expect(model.name == "Ada" && counter.attempts == 1)
      let sent: JSONValue = try await api.post("account", parameters: Account(name: "Grace"))
      let form: JSONValue = try await api.post("account") { $0.append(Data("Grace".utf8), name: "name") }
      #expect(sent["name"]?.stringValue == "Ada" && form == sent)
    }
  }

  @Test func handlersOfAManager() async throws {
    try await withServer { server in
      let api = try AccountAPI(baseURL: server.url("/"))
      var names: [String] = []
      await withCheckedContinuation { done in
        api.get(
          "account", progress: { #expect($0.completedUnitCount > 0) },
          success: { _, value in
            MainActor.assumeIsolated { names.append((value as? JSONValue)?["name"]?.stringValue ?? "") }
            done.resume()
          },
          failure: { _, error in
            Issue.record(error)
            done.resume()
          })
      }
      api.completionQueue = DispatchQueue(label: "elsewhere")
      let name = await withCheckedContinuation { done in
        api.get(
          "account", success: { _, value in done.resume(returning: (value as? JSONValue)?["name"]?.stringValue) },
          failure: { _, _ in done.resume(returning: nil) })
      }
      #expect(names == ["Ada"] && name == "Ada")
    }
  }

  @Test func handlersAndDelegatesOfASession() async throws {
    try await withServer { server in
      let session = try Session()
      let request = try Request(server.url("/account"))
      let watcher = MetricsWatcher()
      let (body, _) = try await session.data(for: request, delegate: watcher)
      while watcher.statuses.isEmpty { try await Task.sleep(for: .milliseconds(1)) }
      let count = await withCheckedContinuation { done in
        session.dataTask(with: request) { done.resume(returning: try? $0.get().0.count) }.resume()
      }
      #expect(watcher.statuses == [200] && count == body.count)
      session.finishTasksAndInvalidate()
    }
  }
}
