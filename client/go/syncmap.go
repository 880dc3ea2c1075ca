package accelerd

import "sync"

// syncMap is a map for several goroutines.
type syncMap[K comparable, V any] struct {
	mutex  sync.Mutex
	values map[K]V
}

func (m *syncMap[K, V]) store(key K, value V) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.values == nil {
		m.values = map[K]V{}
	}
	m.values[key] = value
}

// take removes a value.
func (m *syncMap[K, V]) take(key K) V {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	value := m.values[key]
	delete(m.values, key)
	return value
}
