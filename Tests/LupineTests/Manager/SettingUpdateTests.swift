import Foundation
import Lupine
import Testing

/// Changes of a part of a setting, by several at once.
@Suite struct SettingUpdateTests {
  private struct Refusal: Error {}

  /// A change that another one overtakes is made again, of what that one left.
  @Test func noHeaderIsLost() throws {
    let manager = try HTTPSessionManager()
    var calls = 0
    manager.updateRequestSerializer { serializer in
      calls += 1
      if calls == 1 { manager.requestSerializer.base.setValue("2", forHeader: "X-Second") }
      serializer.base.setValue("1", forHeader: "X-First")
    }
    #expect(calls == 2)
    #expect(manager.requestSerializer.base.value(forHeader: "X-First") == "1")
    #expect(manager.requestSerializer.base.value(forHeader: "X-Second") == "2")
    #expect(throws: Refusal.self) {
      try manager.updateRequestSerializer { serializer in
        serializer = JSONRequestSerializer()
        throw Refusal()
      }
    }
    #expect(manager.requestSerializer is HTTPRequestSerializer)
  }

  @Test func manyThreadsSetHeaders() async throws {
    let manager = try HTTPSessionManager()
    await withTaskGroup { group in
      for number in 0..<64 {
        group.addTask {
          manager.updateRequestSerializer { $0.base.setValue("v", forHeader: "X-\(number)") }
          manager.updateInterceptors { $0.append(ClosureInterceptor()) }
        }
      }
    }
    let names = manager.requestSerializer.base.headers.keys.filter { $0.hasPrefix("X-") }
    #expect(names.count == 64 && manager.interceptors.count == 64)
  }

  @Test func noInterceptorIsLost() throws {
    let manager = try SessionManager()
    var calls = 0
    manager.updateInterceptors { interceptors in
      calls += 1
      if calls == 1 { manager.interceptors.append(ClosureInterceptor()) }
      interceptors.append(ClosureInterceptor())
    }
    #expect(calls == 2 && manager.interceptors.count == 2)
    #expect(throws: Refusal.self) {
      try manager.updateInterceptors { interceptors in
        interceptors = []
        throw Refusal()
      }
    }
    #expect(manager.interceptors.count == 2)
  }
}
